/** Sends the form of a page that is one step of a longer work, once it was shown. */

const form = document.querySelector("form[data-goes-on]");
if (form instanceof HTMLFormElement) {
  setTimeout(() => form.requestSubmit(), 300);
}
