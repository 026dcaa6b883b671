/** Keys that hold wherever the focus is, but in a dialog. */

import { isComposing, isTextField } from "./keys.js";

/**
 * @param {object} deeds
 * @param {() => void} deeds.onEscape
 * @param {() => void} deeds.onSearch
 * @param {() => void} deeds.onShortcuts
 * @param {() => void} deeds.onWrite
 */
export function listenToKeys(deeds) {
  addEventListener("keydown", (event) => {
    if (isComposing(event) || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") {
      deeds.onEscape();
      return;
    }
    const deed = isSearch(event) ? deeds.onSearch : outsideOfText(event, deeds);
    if (!deed) return;
    event.preventDefault();
    deed();
  });
}

/** @param {KeyboardEvent} event */
function isSearch(event) {
  return event.key === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
}

/**
 * @param {KeyboardEvent} event
 * @param {{onShortcuts: () => void, onWrite: () => void}} deeds
 */
function outsideOfText(event, { onShortcuts, onWrite }) {
  if (isTextField(event.target) || event.ctrlKey || event.metaKey || event.altKey) return null;
  return { "?": onShortcuts, "/": onWrite }[event.key] ?? null;
}
