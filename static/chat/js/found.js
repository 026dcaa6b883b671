/** A message that was looked for: in sight, marked, and the words that were found marked in it. */

const MARKED = "found";
const SHOWN_FOR = 4_000; // ms until the message is like the others; its words stay marked
const SETTLING = 8; // frames until messages that have come into sight have their real height

/** @typedef {{seq: number, words: string[], message?: string}} Target `message`: its id, where known */

/**
 * @param {HTMLElement} message
 * @param {string[]} words as they stand in it
 * @param {import("./reading-position.js").ReadingPosition} position
 * @param {boolean} takesFocus
 */
export function showFound(message, words, position, takesFocus) {
  message.querySelector(".body")?.removeAttribute("data-folded");
  for (const other of document.querySelectorAll("[data-found]")) other.removeAttribute("data-found");
  message.dataset.found = "";
  const first = markWords(message, words);
  position.isFollowing = false;
  center(first ?? message, position.scroller, SETTLING);
  message.tabIndex = -1;
  if (takesFocus) message.focus({ preventScroll: true });
  setTimeout(() => message.removeAttribute("data-found"), SHOWN_FOR);
}

/**
 * The words are painted, not wrapped: the document stays as it is.
 * @param {HTMLElement} message @param {string[]} words @returns {Range | null} the first
 */
function markWords(message, words) {
  if (!("highlights" in CSS)) return null;
  const ranges = [...new Set(words)].filter(Boolean).flatMap((word) => rangesOf(message, word));
  ranges.sort((a, b) => a.compareBoundaryPoints(Range.START_TO_START, b));
  CSS.highlights.set(MARKED, new Highlight(...ranges));
  return ranges[0] ?? null;
}

/** @param {HTMLElement} message @param {string} word */
function rangesOf(message, word) {
  const wanted = word.toLowerCase();
  const walker = document.createTreeWalker(message.querySelector(".body") ?? message, NodeFilter.SHOW_TEXT);
  /** @type {Range[]} */
  const ranges = [];
  while (walker.nextNode()) {
    const node = /** @type {Text} */ (walker.currentNode);
    const text = node.data.toLowerCase();
    if (text.length !== node.data.length) continue; // places would differ
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      ranges.push(range);
    }
  }
  return ranges;
}

/**
 * @param {Range | HTMLElement} target @param {HTMLElement} scroller @param {number} frames
 */
function center(target, scroller, frames) {
  const box = target.getBoundingClientRect();
  const view = scroller.getBoundingClientRect();
  const room = Math.max(0, view.height - box.height) / 3;
  scroller.scrollTop += box.top - view.top - room;
  if (frames > 0) requestAnimationFrame(() => center(target, scroller, frames - 1));
}
