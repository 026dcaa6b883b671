/** Which of several wordings or answers is shown: ‹ 2/3 › under a message. */

import { element, iconButton } from "./dom.js";
import { number } from "./format.js";

/**
 * @param {import("./types.js").Message} row the one whose place others take
 * @param {boolean} canChoose
 * @param {(message: string) => void} onChoose its id
 * @returns {HTMLElement | null} nothing where there is only one
 */
export function versionChooser(row, canChoose, onChoose) {
  const ids = row.siblings ?? [];
  const at = ids.indexOf(row.id);
  if (ids.length < 2 || at < 0) return null;
  const step = (/** @type {number} */ by) => ids[at + by] && canChoose && onChoose(ids[at + by]);
  const buttons = [
    stepButton("left", "Earlier version", canChoose && at > 0, () => step(-1)),
    stepButton("right", "Later version", canChoose && at < ids.length - 1, () => step(1)),
  ];
  const place = element("span", { class: "versions-place" });
  place.append(
    element("span", { "aria-hidden": "true", text: `${number(at + 1)}/${number(ids.length)}` }),
    element("span", { class: "sr-only", text: versionWords(row) }),
  );
  return element(
    "span",
    {
      class: "versions",
      role: "group",
      "aria-label": "Versions",
      on: { keydown: (/** @type {KeyboardEvent} */ event) => onKey(event, step) },
    },
    buttons[0],
    place,
    buttons[1],
  );
}

/** @param {import("./types.js").Message} row */
export function versionWords(row) {
  const ids = row.siblings ?? [];
  return `Version ${number(ids.indexOf(row.id) + 1)} of ${number(ids.length)}`;
}

/** The same button in the message that has come; the other one at an end. @param {HTMLElement} message */
export function focusVersions(message, isLater = true) {
  const [earlier, later] = message.querySelectorAll(".versions button");
  const wanted = /** @type {HTMLButtonElement | undefined} */ (isLater ? later : earlier);
  const other = /** @type {HTMLButtonElement | undefined} */ (isLater ? earlier : later);
  (wanted?.getAttribute("aria-disabled") === "true" ? other : wanted)?.focus({ preventScroll: true });
}

/**
 * Not `disabled`: a button that loses its use under the finger would lose the focus as well.
 * @param {string} name @param {string} label @param {boolean} isOn @param {() => void} onClick
 */
function stepButton(name, label, isOn, onClick) {
  const made = iconButton(name, label, onClick);
  if (!isOn) made.setAttribute("aria-disabled", "true");
  return made;
}

/** @param {KeyboardEvent} event @param {(by: number) => void} step */
function onKey(event, step) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by) return;
  event.preventDefault();
  step(by);
}
