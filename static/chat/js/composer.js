/** The message box: typing goes on whatever the connection does, and no text is ever lost. */

import { CommandList, parseCommand } from "./commands.js";
import { byId } from "./dom.js";
import { characters, number } from "./format.js";
import { isComposing, isSendKey } from "./keys.js";

const LOOK_AT = 500; // characters that tell the direction of the text
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u;
const COUNT_FROM = 0.8; // of the limit: from here on the characters are counted for the writer

/**
 * @typedef {object} ComposerDependencies
 * @property {number} limit characters in one message
 * @property {() => import("./attachment-tray.js").AttachmentTray} tray
 * @property {() => boolean} isReady whether there is nothing to wait for before sending
 * @property {() => Promise<boolean>} untilReady whether the conversation is still the same one
 * @property {(text: string) => Promise<string>} onSend resolves to why it was not sent, or nothing
 * @property {(command: any) => Promise<string>} onCommand the same for a command
 * @property {() => void} onStop
 * @property {() => void} onShortcuts
 * @property {() => boolean} onEditLast whether there is a message to write anew
 * @property {(text: string) => void} onDraft
 */

export class Composer {
  /** @param {ComposerDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    /** @type {HTMLTextAreaElement} */
    this.field = byId("composer-text");
    this.notice = byId("composer-notice");
    this.count = byId("composer-count");
    this.send = byId("send");
    this.stop = byId("stop");
    this.isRunning = false;
    this.isStopping = false;
    this.isClosed = false;
    this.isBusy = false;
    this.next = ""; // what was sent while something else was still on its way
    this.commands = new CommandList(byId("commands"), this.field, (text) => this.setText(text));
    this.#listen();
  }

  get text() {
    return this.field.value;
  }

  /** @param {string} text */
  setText(text) {
    this.field.value = text;
    this.#changed();
    this.field.focus();
  }

  /** Text that comes back goes before what has been typed since. @param {string} text */
  giveBack(text) {
    if (text) this.setText(this.text.trim() ? `${text}\n\n${this.text}` : text);
  }

  /** Another session's draft; the focus stays where it is. @param {string} text */
  show(text) {
    this.field.value = text;
    this.say("");
    this.#changed();
  }

  /** @param {string} text @param {string} [tone] `plain` for what is not an error */
  say(text, tone = "danger") {
    this.notice.dataset.tone = tone;
    this.notice.textContent = text;
  }

  /** @param {boolean} isRunning @param {boolean} isStopping */
  setRunning(isRunning, isStopping) {
    this.isRunning = isRunning;
    this.isStopping = isStopping;
    this.#drawButtons();
  }

  /** Nothing can be sent here any more; what was typed can still be copied. @param {boolean} isClosed */
  setClosed(isClosed) {
    this.isClosed = isClosed;
    this.field.readOnly = isClosed;
    this.#drawButtons();
  }

  focus() {
    this.field.focus();
  }

  /** The images beside the text changed. */
  imagesChanged() {
    this.#drawButtons();
  }

  #listen() {
    this.field.addEventListener("input", () => {
      this.say("");
      this.#changed();
    });
    this.field.addEventListener("keydown", (event) => this.#onKey(event));
    this.field.addEventListener("paste", (event) => this.#onPaste(event));
    this.field.addEventListener("blur", () => this.commands.close());
    this.stop.addEventListener("click", () => this.need.onStop());
    byId("composer").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#submit();
    });
    byId("show-commands").addEventListener("click", () => {
      if (!this.text) this.setText("/");
      this.field.focus();
    });
    byId("show-shortcuts").addEventListener("click", () => this.need.onShortcuts());
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (this.commands.takesKey(event)) event.stopPropagation();
    else if (isSendKey(event)) {
      event.preventDefault();
      if (!event.repeat) this.#submit();
    } else if (event.key === "ArrowUp" && !this.text && !isComposing(event)) {
      if (this.need.onEditLast()) event.preventDefault();
    } else if (event.key === "?" && !this.text && !event.isComposing) {
      event.preventDefault();
      this.need.onShortcuts();
    }
  }

  /**
   * Images join the message, unless they are only the picture of a text that came with them. Some
   * programs copy HTML only; a text box would then paste nothing.
   * @param {ClipboardEvent} event
   */
  #onPaste(event) {
    const data = event.clipboardData;
    if (!data || data.types.includes("text/plain")) return;
    if (data.files.length) {
      event.preventDefault();
      this.need.tray().add(data.files);
      return;
    }
    if (!data.types.includes("text/html")) return;
    event.preventDefault();
    const text = textOf(data.getData("text/html"));
    this.field.setRangeText(text, this.field.selectionStart, this.field.selectionEnd, "end");
    this.#changed();
  }

  /** The text stays in the box until its conversation is there; whoever writes on sends later. */
  async #submit() {
    const { text } = this;
    if (this.isBusy) {
      this.next = text;
      return;
    }
    this.isBusy = true;
    this.#drawButtons();
    try {
      const isReady = this.need.isReady() || (await this.need.untilReady());
      if (isReady && this.text === text) await this.#submitNow(text);
    } finally {
      this.isBusy = false;
      this.#drawButtons();
      this.#submitNext(text);
    }
  }

  /** Enter while `/new` was still at work means the text that came after it. @param {string} before */
  #submitNext(before) {
    const { next } = this;
    this.next = "";
    if (next && next !== before && next === this.text) this.#submit();
  }

  /** @param {string} text */
  async #submitNow(text) {
    if (this.isClosed || this.#isOver()) return;
    if (!text.trim() && !this.need.tray().count) return;
    if (this.need.tray().isBusy) {
      this.say("An image is still on its way; send again in a moment.", "plain");
      return;
    }
    const command = parseCommand(text);
    if (command?.name === "bad") {
      this.say(command.why);
      return;
    }
    await this.#deliver(text, command);
  }

  /** The box is emptied at once; what could not be sent comes back. @param {string} text @param {any} command */
  async #deliver(text, command) {
    this.show("");
    let why;
    try {
      why = await (command ? this.need.onCommand(command) : this.need.onSend(text));
    } catch (error) {
      this.giveBack(text);
      this.say(/** @type {Error} */ (error).message);
      return;
    }
    if (!why) return;
    this.giveBack(text);
    this.say(why, "plain");
  }

  #isOver() {
    const { limit } = this.need;
    return this.text.length > limit && characters(this.text) > limit;
  }

  #changed() {
    this.commands.update(this.text);
    this.field.dir = direction(this.text);
    this.#grow();
    this.#drawCount();
    this.#drawButtons();
    this.need.onDraft(this.text);
  }

  /** As tall as the text, where CSS cannot do that alone. */
  #grow() {
    if (CSS.supports("field-sizing", "content")) return;
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight, innerHeight * 0.4)}px`;
  }

  #drawCount() {
    const { limit } = this.need;
    const isOver = this.#isOver();
    this.count.toggleAttribute("data-over", isOver);
    const count = this.text.length < limit * COUNT_FROM ? 0 : characters(this.text);
    this.count.textContent = count ? `${number(count)} of ${number(limit)} characters` : "";
    if (isOver) {
      this.say(`Too long to send: ${number(count)} characters, ${number(limit)} are allowed.`);
    }
  }

  #drawButtons() {
    const isStop = this.isRunning && !this.isStopping;
    this.stop.hidden = !isStop;
    this.send.hidden = isStop;
    const tray = this.need.tray();
    const isEmpty = !this.text.trim() && !tray.count;
    this.send.disabled = this.isClosed || this.isBusy || isEmpty || tray.isBusy || this.#isOver();
    byId("attach").disabled = this.isClosed;
  }
}

/** What dir="auto" says, which takes seconds for a megabyte in a text box. @param {string} text */
function direction(text) {
  const first = /\p{L}/u.exec(text.slice(0, LOOK_AT))?.[0] ?? "";
  return RIGHT_TO_LEFT.test(first) ? "rtl" : "ltr";
}

/** @param {string} html from the clipboard; parsed into a document that runs and loads nothing */
function textOf(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  page.querySelectorAll("script, style, head").forEach((node) => node.remove());
  page.querySelectorAll("br").forEach((node) => node.replaceWith("\n"));
  page.querySelectorAll("p, div, li, tr, h1, h2, h3, h4, h5, h6, pre").forEach((node) => node.append("\n"));
  return (page.body.textContent ?? "").replace(/\n{3,}/gu, "\n\n").trim();
}
