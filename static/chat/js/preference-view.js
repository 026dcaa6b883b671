/** One thing that is remembered, on the page: its words, where they are from, and what can be done. */

import { addressOf } from "./address.js";
import { confirm } from "./dialogs.js";
import { element, textButton } from "./dom.js";
import { date, endOfDay, fieldDay, fullTime, time } from "./format.js";
import { isComposing } from "./keys.js";

/** Told by a row that is not being written in any more: what it says may be older than what is known. */
export const EDITED = "preference-edited";
const ORIGINS = { chat: "Said in a conversation", user: "Written by you", admin: "Written by staff", import: "Imported" };

/**
 * @typedef {object} PreferenceActions
 * @property {(id: number, changes: object) => Promise<void>} onChange
 * @property {(id: number) => Promise<void>} onDelete
 * @property {(id: number, keep: boolean) => Promise<void>} onAnswer
 * @property {(session: string, seq: number | null) => void} onOpen
 * @property {(why: string) => void} onProblem
 */

/** What the words are about, unless they say it themselves. @param {import("./types.js").Preference} preference */
function keyNode({ key, text }) {
  if (!key || text.toLowerCase().startsWith(key.toLowerCase())) return null;
  return element("p", { class: "preference-key" }, element("bdi", { text: key }));
}

/**
 * @param {import("./types.js").Preference} preference
 * @param {PreferenceActions} actions
 */
function originNode({ origin, source }, actions) {
  const words = ORIGINS[/** @type {"chat"} */ (origin)] ?? origin;
  if (!source?.session) return element("span", { text: words });
  const { session, seq } = source;
  const onClick = (/** @type {MouseEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    actions.onOpen(session, seq);
  };
  return element("a", { href: addressOf(session, seq), text: words, on: { click: onClick } });
}

/** @param {import("./types.js").Preference} preference @param {PreferenceActions} actions */
function factsNode(preference, actions) {
  const { scope, last_used_at: used, expires_at: until } = preference;
  const facts = [originNode(preference, actions)];
  if (scope && scope !== "all") facts.push(element("span", { text: `only with ${scope}` }));
  if (used) facts.push(element("span", { text: `last used ${time(used)}`, title: fullTime(used) }));
  if (until) {
    const isOver = new Date(until) < new Date();
    const text = `${isOver ? "lapsed" : "until"} ${date(until)}`;
    facts.push(element("span", { text, title: fullTime(until) }));
  }
  return element("p", { class: "preference-facts" }, ...facts);
}

/** What it was taken from, unless that is the same words. @param {import("./types.js").Preference} preference */
function quoteNode({ quote, text }) {
  return quote && quote.trim() !== text.trim() ? element("blockquote", { class: "preference-quote", dir: "auto", text: quote }) : null;
}

/**
 * One that is kept, to be edited, switched off or deleted.
 * @param {import("./types.js").Preference} preference
 * @param {PreferenceActions} actions
 */
export function preferenceRow(preference, actions) {
  const isOn = preference.status === "active";
  const about = preference.key;
  const row = element("li", { class: "preference" });
  const draw = () =>
    row.replaceChildren(
      ...[
        keyNode(preference),
        element("p", { class: "preference-words", dir: "auto", text: preference.text }),
        quoteNode(preference),
        factsNode(preference, actions),
        element(
          "p",
          { class: "preference-tools" },
          named(textButton(null, "Edit", () => edit(preference, row, actions, draw)), about),
          named(textButton(null, isOn ? "Disable" : "Enable", () => change(preference, toggled(isOn), actions)), about),
          named(textButton(null, "Delete", () => remove(preference, actions)), about),
        ),
      ].filter(Boolean),
    );
  row.toggleAttribute("data-disabled", !isOn);
  draw();
  return row;
}

/** @param {boolean} isOn */
const toggled = (isOn) => ({ status: isOn ? "disabled" : "active" });

/** The button says to everyone what it is about. @param {HTMLElement} trigger @param {string} about */
function named(trigger, about) {
  trigger.append(element("span", { class: "sr-only", text: ` ${about}` }));
  return trigger;
}

/**
 * One that was proposed.
 * @param {import("./types.js").Preference} preference
 * @param {PreferenceActions} actions
 * @param {string} tag
 */
export function proposalNode(preference, actions, tag = "li") {
  const answer = (/** @type {boolean} */ keep) => () =>
    attempt(() => actions.onAnswer(preference.id, keep), actions);
  return element(
    tag,
    { class: "proposal" },
    element("p", { class: "proposal-question", text: "Remember this?" }),
    keyNode(preference),
    element("p", { class: "preference-words", dir: "auto", text: preference.text }),
    quoteNode(preference),
    factsNode(preference, actions),
    element(
      "p",
      { class: "proposal-answers" },
      named(element("button", { class: "button", type: "button", text: "Keep", on: { click: answer(true) } }), preference.key),
      named(
        element("button", { class: "button", type: "button", text: "Do not keep", on: { click: answer(false) } }),
        preference.key,
      ),
    ),
  );
}

// --- What can be done -----------------------------------------------------------------------------

/** @param {() => Promise<void>} act @param {PreferenceActions} actions @returns {Promise<boolean>} */
export async function attempt(act, actions) {
  try {
    await act();
    return true;
  } catch (error) {
    actions.onProblem(/** @type {Error} */ (error).message);
    return false;
  }
}

/** @param {import("./types.js").Preference} preference @param {object} changes @param {PreferenceActions} actions */
function change(preference, changes, actions) {
  return attempt(() => actions.onChange(preference.id, changes), actions);
}

/** @param {import("./types.js").Preference} preference @param {PreferenceActions} actions */
async function remove(preference, actions) {
  const answer = await confirm({
    title: "Forget this?",
    text: `${preference.key}: ${preference.text}`,
    more:
      "It goes for good, with what it once replaced, and out of the stored requests that carried it. " +
      "It is not learnt again from the same message. Answers that were given stay as they are.",
    action: "Forget",
  });
  if (answer) await attempt(() => actions.onDelete(preference.id), actions);
}

/**
 * @param {import("./types.js").Preference} preference
 * @param {HTMLElement} row
 * @param {PreferenceActions} actions
 * @param {() => void} draw the row as it was
 */
function edit(preference, row, actions, draw) {
  const field = element("textarea", { class: "input", rows: 3, dir: "auto", "aria-label": preference.key });
  field.value = preference.text;
  const day = fieldDay(preference.expires_at);
  const until = element("input", { class: "input", type: "date", value: day, min: fieldDay(new Date().toISOString()) });
  const leave = () => {
    draw();
    /** @type {HTMLElement | null} */ (row.querySelector(".preference-tools button"))?.focus();
    row.dispatchEvent(new Event(EDITED, { bubbles: true }));
  };
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape" || isComposing(event)) return;
    event.stopPropagation();
    leave();
  };
  for (const each of [field, until]) each.addEventListener("keydown", onKey);
  const save = async () => {
    const isSame = until.value === day && !until.validity.badInput; // a day that is past may stay
    if (!isSame && !until.reportValidity()) return;
    const moved = isSame ? {} : { expires_at: endOfDay(until.value) };
    const text = field.value;
    const isKept = await change(preference, { text, ...moved }, actions);
    if (isKept && row.isConnected && field.value === text) leave(); // else someone writes on
  };
  const buttons = [
    textButton(null, "Save", save),
    textButton(null, "Cancel", leave),
  ];
  const shown = [
    keyNode(preference),
    field,
    element("label", { class: "preference-until" }, "Until (for good, if left empty)", until),
    element("p", { class: "preference-tools" }, ...buttons),
  ];
  row.replaceChildren(...shown.filter((node) => node !== null));
  field.focus();
}
