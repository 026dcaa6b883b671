/** What stands where there are no messages: a beginning, or the end of a session. */

import { byId, element } from "./dom.js";

const DEMO = [
  ["Let it remember", "第一轮：记忆验证：请记住校验短语“青云-4173”，并只回复“已记住”。"],
  ["Ask for it again", "What did I ask you to remember?"],
  ["See a long answer", "Write me a long markdown text with code, a table and math."],
];
const OTHERS = [
  ["Let it remember", "Please remember: our project is called Heron and ships on 12 May."],
  ["Think something through", "Compare three ways to store a chat history in a database. Use a table."],
  ["Get a draft", "Draft a short, friendly reply that declines an invitation to a conference."],
];

/**
 * @param {{name: string} | null} assistant
 * @param {boolean} isDemo
 * @param {(text: string) => void} onTry
 */
export function showWelcome(assistant, isDemo, onTry) {
  byId("welcome").hidden = false;
  byId("welcome-text").textContent = isDemo
    ? "You talk to a scripted demo: it answers from a fixed script and shows what memory does. It is not an AI."
    : "Earlier messages of a conversation go along with each new one. You can always see what was sent, and make it forget.";
  if (!assistant) {
    byId("welcome-text").textContent = "No assistant is offered here yet; an administrator can add one.";
  }
  byId("suggestions").replaceChildren(
    ...(assistant ? (isDemo ? DEMO : OTHERS) : []).map(([title, text]) =>
      element(
        "button",
        { class: "suggestion", type: "button", on: { click: () => onTry(text) } },
        element("strong", { text: title }),
        element("span", { dir: "auto", text }),
      ),
    ),
  );
}

/** @param {"missing" | "deleted"} why @param {() => void} onStart */
export function showGone(why, onStart) {
  byId("gone").hidden = false;
  byId("gone-title").textContent =
    why === "deleted" ? "This conversation was deleted" : "There is no such conversation";
  byId("gone-text").textContent =
    "Nothing can be sent here any more. What you have written stays in the box, to be copied.";
  const action = byId("gone-action");
  action.textContent = "Start a new one";
  action.onclick = onStart;
}

export function hideWelcome() {
  byId("welcome").hidden = true;
  byId("gone").hidden = true;
}
