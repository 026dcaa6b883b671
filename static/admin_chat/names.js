/**
 * Gives the text box inside each autocomplete the name of its field: select2 leaves it without
 * one, and a screen reader would say "text box" alone.
 */

/** @param {Element} container */
function name(container) {
  const select = container.previousElementSibling;
  const label = select?.id && document.querySelector(`label[for="${CSS.escape(select.id)}"]`);
  const box = container.querySelector(".select2-selection__rendered");
  if (label && box) {
    box.setAttribute("aria-label", label.textContent.trim().replace(/:$/, ""));
  }
}

function nameAll() {
  document.querySelectorAll(".select2-container").forEach(name);
}

new MutationObserver(nameAll).observe(document.documentElement, { childList: true, subtree: true });
