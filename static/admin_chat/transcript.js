/**
 * Unfolds "what was sent" in a transcript. Each fold is fetched when it is first opened, since
 * opening one is recorded; without this script the link inside it leads to the same on a page.
 */

/** @param {HTMLElement} fold */
async function fill(fold) {
  const body = fold.querySelector(".sent-body");
  const link = body.firstElementChild;
  const status = document.createElement("p");
  status.setAttribute("role", "status");
  status.className = "quiet";
  status.textContent = "Loading…";
  body.replaceChildren(link, status);
  try {
    const response = await fetch(fold.dataset.src, { headers: { Accept: "text/html" } });
    if (!response.ok || response.redirected) {
      throw new Error(`The server answered ${response.status}.`);
    }
    const piece = new DOMParser().parseFromString(await response.text(), "text/html");
    body.replaceChildren(link, ...piece.body.childNodes);
    fold.dataset.filled = "true";
  } catch (error) {
    status.textContent = `This could not be loaded: ${error.message} Close and open it to try again.`;
  }
}

document.addEventListener(
  "toggle",
  (event) => {
    const fold = event.target;
    if (fold.matches(".sent-fold") && fold.open && !fold.dataset.filled) {
      fill(fold);
    }
  },
  true,
);
