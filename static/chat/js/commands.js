/** What begins with a slash: the page's own commands, and the list that offers them. */

import { element } from "./dom.js";
import { isComposing } from "./keys.js";

const COMMANDS = [
  { name: "remember", shown: "/remember key: text", fill: "/remember ", does: "Remember something in all conversations" },
  { name: "new", shown: "/new", fill: "/new", does: "Start a new chat" },
];

/**
 * @param {string} text
 * @returns {{name: "new"} | {name: "remember", key: string, value: string}
 *   | {name: "bad", why: string} | null} null for an ordinary message
 */
export function parseCommand(text) {
  const match = /^\s*\/(remember|new)(?![\w/.-])\s*([^]*)$/u.exec(text);
  if (!match) return null;
  if (match[1] === "new") {
    return match[2] ? { name: "bad", why: "/new stands alone; send your message after it." } : { name: "new" };
  }
  const parts = /^([^:：]*)[:：]([^]*)$/u.exec(match[2]);
  const key = parts?.[1].trim() ?? "";
  const value = parts?.[2].trim() ?? "";
  if (key && value) return { name: "remember", key, value };
  return { name: "bad", why: "Write it like this: /remember language: answer me in French" };
}

export class CommandList {
  /**
   * @param {HTMLElement} box
   * @param {HTMLTextAreaElement} field
   * @param {(text: string) => void} onChoice
   */
  constructor(box, field, onChoice) {
    this.box = box;
    this.field = field;
    this.onChoice = onChoice;
    /** @type {typeof COMMANDS} */
    this.offered = [];
    this.chosen = 0;
  }

  /** @param {string} text in the message box */
  update(text) {
    const start = /^\/(\w*)$/u.exec(text);
    const mayBeMeant = (/** @type {typeof COMMANDS[number]} */ each) =>
      each.name.startsWith(start?.[1] ?? "") && each.fill !== text; // one that is complete is just sent
    this.offered = start ? COMMANDS.filter(mayBeMeant) : [];
    this.chosen = 0;
    this.#draw();
  }

  close() {
    this.offered = [];
    this.#draw();
  }

  get isOpen() {
    return this.offered.length > 0;
  }

  /** @param {KeyboardEvent} event @returns {boolean} whether the key was for the list */
  takesKey(event) {
    if (!this.isOpen || isComposing(event)) return false;
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    const step = steps[/** @type {keyof typeof steps} */ (event.key)];
    if (step) {
      this.chosen = (this.chosen + step + this.offered.length) % this.offered.length;
      this.#draw();
    } else if (event.key === "Escape") this.close();
    else if ((event.key === "Enter" && !event.shiftKey) || event.key === "Tab") this.#choose(this.chosen);
    else return false;
    event.preventDefault();
    return true;
  }

  /** @param {number} index */
  #choose(index) {
    const { fill } = this.offered[index];
    this.close();
    this.onChoice(fill);
  }

  #draw() {
    this.box.hidden = !this.isOpen;
    this.box.replaceChildren(
      ...this.offered.map((command, index) =>
        element(
          "div",
          {
            class: "command",
            id: `command-${command.name}`,
            role: "option",
            "aria-selected": String(index === this.chosen),
            on: { mousedown: (/** @type {Event} */ event) => (event.preventDefault(), this.#choose(index)) },
          },
          element("code", { text: command.shown }),
          element("span", { text: command.does }),
        ),
      ),
    );
    const active = this.offered[this.chosen];
    if (active) this.field.setAttribute("aria-activedescendant", `command-${active.name}`);
    else this.field.removeAttribute("aria-activedescendant");
  }
}
