/** Writing an earlier message anew, in its place. */

import { element, newId } from "./dom.js";
import { characters, number } from "./format.js";
import { isComposing, isSendKey } from "./keys.js";

/**
 * @typedef {object} EditorDependencies
 * @property {string} text as it stands
 * @property {string} [written] what has been made of it already
 * @property {(text: string) => void} onInput
 * @property {number} limit characters
 * @property {(text: string, clientId: string) => string} onSend why it did not go out; empty: it did
 * @property {() => void} onClose
 */

export class MessageEditor {
  /** @param {EditorDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    this.clientId = newId();
    this.field = element("textarea", {
      class: "input",
      rows: 3,
      dir: "auto",
      "aria-label": "Your message, written anew",
    });
    this.field.value = dependencies.written ?? dependencies.text;
    this.why = element("p", { class: "field-error", role: "alert" });
    this.element = element(
      "form",
      {
        class: "message-editor",
        on: {
          submit: (/** @type {Event} */ event) => {
            event.preventDefault();
            this.#send();
          },
        },
      },
      this.field,
      this.why,
      element("p", {
        class: "quiet",
        text: "What followed stays on a branch of its own; the arrows under the message lead back to it.",
      }),
      element(
        "div",
        { class: "dialog-actions" },
        element("button", { class: "button", type: "button", text: "Cancel", on: { click: () => this.need.onClose() } }),
        element("button", { class: "button button-primary", text: "Send anew" }),
      ),
    );
    this.field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#onKey(event));
    this.field.addEventListener("input", () => {
      this.clientId = newId(); // another text is another order
      this.say("");
      this.need.onInput(this.text);
    });
  }

  get text() {
    return this.field.value;
  }

  focus() {
    this.field.focus();
    this.field.setSelectionRange(this.field.value.length, this.field.value.length);
  }

  /** @param {string} why */
  say(why) {
    this.why.textContent = why;
  }

  #send() {
    const { text } = this;
    if (text === this.need.text) {
      this.need.onClose();
      return;
    }
    if (!text.trim()) {
      this.say("Write something, or cancel.");
      return;
    }
    const count = characters(text);
    if (count > this.need.limit) {
      this.say(`Too long to send: ${number(count)} characters, ${number(this.need.limit)} are allowed.`);
      return;
    }
    this.say(this.need.onSend(text, this.clientId));
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (isComposing(event)) return;
    if (event.key === "Escape") this.need.onClose();
    else if (isSendKey(event) && !event.repeat) this.#send();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
