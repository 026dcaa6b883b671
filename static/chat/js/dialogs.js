/** Questions to the reader, in the dialogs of the template. */

import { byId, element } from "./dom.js";

/** @param {HTMLDialogElement} dialog @returns {Promise<void>} once it has been closed */
const closed = (dialog) =>
  new Promise((done) => dialog.addEventListener("close", () => done(), { once: true }));

/**
 * A question that stands there is answered before the next one takes its place: an answer that was
 * meant for the one must not be taken for the other.
 * @param {HTMLDialogElement} dialog
 */
async function untilFree(dialog) {
  while (dialog.open) await closed(dialog);
}

/** @param {HTMLDialogElement} dialog @returns {Promise<string>} the value of the button, or "" */
async function ask(dialog) {
  dialog.returnValue = "";
  dialog.showModal();
  await closed(dialog);
  return dialog.returnValue;
}

/** @param {string} id @returns {Promise<string>} */
export const openDialog = (id) => ask(byId(id));

/**
 * @param {{title: string, text: string, more?: string, action: string,
 *   choices?: {value: string, label: string}[]}} question `choices` can be ticked
 * @returns {Promise<string[] | null>} the ticked values, or null for no
 */
export async function confirm(question) {
  await untilFree(byId("confirm-dialog"));
  byId("confirm-title").textContent = question.title;
  byId("confirm-text").textContent = question.text;
  byId("confirm-more").textContent = question.more ?? "";
  byId("confirm-action").textContent = question.action;
  const boxes = (question.choices ?? []).map((choice) =>
    element("input", { type: "checkbox", value: choice.value, "aria-label": choice.label }),
  );
  byId("confirm-choices").replaceChildren(
    ...boxes.map((box, index) =>
      element("label", {}, box, element("bdi", { text: question.choices?.[index].label })),
    ),
  );
  const answer = await ask(byId("confirm-dialog"));
  if (answer !== "confirm") return null;
  return boxes.filter((box) => box.checked).map((box) => box.value);
}

/** What was wrong with an answer, in the reader's words. @returns {Promise<string | null>} null: no */
export async function askComment() {
  const field = byId("comment-text");
  field.value = "";
  const answer = await ask(byId("comment-dialog"));
  return answer === "confirm" ? field.value.trim() : null;
}

/**
 * What cannot be undone at all asks for the person's name.
 * @param {string} name
 * @returns {Promise<{conversations: boolean} | null>} whether all conversations go as well; null: no
 */
export async function confirmByName(name) {
  const field = byId("erase-name");
  const action = byId("erase-action");
  byId("erase-conversations").checked = false;
  byId("erase-expected").textContent = name;
  field.value = "";
  action.disabled = true;
  field.oninput = () => {
    action.disabled = field.value.trim() !== name;
  };
  if ((await ask(byId("erase-dialog"))) !== "confirm") return null;
  return { conversations: byId("erase-conversations").checked };
}

/**
 * @param {{slug: string, name: string}[]} assistants
 * @param {string[]} demo slugs of the scripted ones
 * @returns {Promise<string>} a slug, or "" for none
 */
export function chooseAssistant(assistants, demo) {
  byId("new-chat-choices").replaceChildren(
    ...assistants.map((each) =>
      element(
        "button",
        { class: "button choice", value: each.slug },
        element("bdi", { text: each.name }),
        demo.includes(each.slug) && element("span", { class: "pill pill-demo", text: "Scripted" }),
      ),
    ),
  );
  return ask(byId("new-chat-dialog"));
}

export function showShortcuts() {
  ask(byId("shortcuts-dialog"));
}
