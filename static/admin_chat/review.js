/**
 * The keys of reviewing: j and k walk through what has `data-step`, any other key presses the
 * control that has it in `data-key`. Never while somebody writes or chooses, nor with Ctrl, Alt or
 * Meta; and they can be switched off on the page.
 */

const SWITCH = "review-keys-off";
const WRITING = "input:not([type=checkbox]):not([type=submit]), textarea, select, [contenteditable]";
const AWAY = { j: 1, k: -1 };

const box = document.getElementById("use-keys");
if (box) {
  box.checked = localStorage.getItem(SWITCH) === null;
  box.addEventListener("change", () => {
    if (box.checked) {
      localStorage.removeItem(SWITCH);
    } else {
      localStorage.setItem(SWITCH, "1");
    }
  });
  document.addEventListener("keydown", pressed);
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  const isPlain = !event.ctrlKey && !event.altKey && !event.metaKey && !event.isComposing;
  if (!box.checked || !isPlain || event.defaultPrevented || event.target.closest?.(WRITING)) {
    return;
  }
  const done = event.key in AWAY ? step(AWAY[event.key]) : press(event.key);
  if (done) {
    event.preventDefault();
  }
}

/**
 * Moves the focus to the next or previous step; from nowhere to the first or last.
 * @param {number} by
 */
function step(by) {
  const steps = [...document.querySelectorAll("[data-step]")];
  const here = steps.indexOf(document.activeElement?.closest("[data-step]") ?? null);
  const target = here === -1 ? steps.at(by > 0 ? 0 : -1) : steps[here + by];
  if (!target) {
    return false;
  }
  target.focus({ preventScroll: true });
  target.scrollIntoView({ block: "nearest" });
  return true;
}

/** @param {string} key */
function press(key) {
  const control = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
  control?.click();
  return Boolean(control);
}
