/** Which Enter sends: not one that confirms an input method's candidate, not one of a soft keyboard. */

const IME = 229; // what Safari gives the Enter that ended a composition, after `compositionend`

/**
 * The event's own word is taken, never a flag of ours: a `compositionend` that does not come would
 * leave a flag standing and the box dead.
 * @param {KeyboardEvent} event
 */
export function isComposing(event) {
  return event.isComposing || event.keyCode === IME;
}

/** A touch laptop has a fine pointer beside its touch screen and keeps sending with Enter. */
function hasSoftKeyboard() {
  return matchMedia("(pointer: coarse)").matches && !matchMedia("(any-pointer: fine)").matches;
}

/** @param {KeyboardEvent} event */
export function isSendKey(event) {
  if (event.key !== "Enter" || event.shiftKey || event.altKey || isComposing(event)) return false;
  return event.ctrlKey || event.metaKey || !hasSoftKeyboard();
}

/** Enter in a one-line field. @param {KeyboardEvent} event */
export function isConfirmKey(event) {
  return event.key === "Enter" && !isComposing(event);
}

/** @param {EventTarget | null} target */
export function isTextField(target) {
  return target instanceof HTMLElement && target.matches("input, textarea, select");
}
