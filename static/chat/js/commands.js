/** What begins with a slash: the page's own commands, and the list that offers them. */

import { element } from "./dom.js";
import { isComposing } from "./keys.js";

const COMMANDS = [
  { name: "remember", shown: "/remember text", fill: "/remember ", does: "Remember something in all conversations" },
  { name: "forget", shown: "/forget words", fill: "/forget ", does: "Delete something that is remembered" },
  { name: "search", shown: "/search words", fill: "/search ", does: "Search your messages" },
  { name: "new", shown: "/new", fill: "/new", does: "Start a new chat" },
  { name: "temporary", shown: "/temporary", fill: "/temporary", does: "Start a chat without memory, whose text goes by itself" },
];
const ALONE = ["new", "temporary"];
const LONGEST_KEY = 60; // characters

/**
 * @typedef {{name: "new" | "temporary"} | {name: "search" | "forget", words: string}
 *   | {name: "remember", key: string, value: string} | {name: "bad", why: string}} Command
 */

/** @param {string} text @returns {Command | null} null for an ordinary message */
export function parseCommand(text) {
  const match = /^\s*\/(remember|forget|search|new|temporary)(?![\w/.-])\s*([^]*)$/u.exec(text);
  if (!match) return null;
  const [, name, rest] = match;
  const words = rest.trim();
  if (ALONE.includes(name)) {
    if (words) return { name: "bad", why: `/${name} stands alone; send your message after it.` };
    return { name: /** @type {"new" | "temporary"} */ (name) };
  }
  if (name === "remember") return remembered(words);
  if (words || name === "search") return { name: /** @type {"search" | "forget"} */ (name), words };
  return { name: "bad", why: "Say what: /forget favourite tea" };
}

/** `key: text`, or a text that is its own key. @param {string} words @returns {Command} */
function remembered(words) {
  const parts = /^([^:：\n]{0,100})[:：]([^]*)$/u.exec(words);
  const key = parts ? parts[1].trim() : shortened(words);
  const value = parts ? parts[2].trim() : words;
  if (key && value) return { name: "remember", key, value };
  return { name: "bad", why: "Write it like this: /remember answer me in French" };
}

/** The first words of a text. @param {string} text */
function shortened(text) {
  const line = text.split("\n", 1)[0].trim();
  if (line.length <= LONGEST_KEY) return line;
  const cut = line.slice(0, LONGEST_KEY);
  const end = cut.lastIndexOf(" ");
  return (end > LONGEST_KEY / 2 ? cut.slice(0, end) : cut).replace(/[\ud800-\udbff]$/u, "");
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
