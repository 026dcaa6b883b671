/** A conversation's name, being written in the place of its row. */

import { element } from "./dom.js";
import { isConfirmKey } from "./keys.js";

/**
 * @param {HTMLElement} row gives its place to the field
 * @param {string} title
 * @param {(name: string | null) => void} onEnd null: it stays as it is
 */
export function writeName(row, title, onEnd) {
  const field = element("input", {
    class: "session-name",
    maxlength: 200,
    dir: "auto",
    "aria-label": "Name of the conversation",
  });
  field.value = title;
  let isOver = false; // taking the field away ends it once more, by its `blur`
  const end = (/** @type {boolean} */ isKept) => {
    if (isOver) return;
    isOver = true;
    onEnd(isKept ? field.value.trim() : null);
  };
  field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    event.stopPropagation();
    const isKept = isConfirmKey(event);
    if (!isKept && (event.key !== "Escape" || event.isComposing)) return;
    event.preventDefault(); // or Enter presses the button that gets the focus
    end(isKept);
  });
  field.addEventListener("blur", () => end(true));
  row.replaceChildren(field);
  field.select();
  field.focus();
}
