/** An answer while it is written: finished blocks as HTML, the unfinished rest as text. */

import { addCopyButtons } from "./code-blocks.js";
import { element, serverHtml } from "./dom.js";
import { counted } from "./format.js";
import { TurnStream } from "./turn-stream.js";

const LONG_WAIT = 5; // seconds until the waiting is counted
const CHUNK = 4_000; // characters of unfinished text in one element, so that adding stays cheap

export class AnswerView {
  /**
   * @param {string} turn
   * @param {(write: () => void) => void} paintWith does one DOM write and keeps the reading position
   */
  constructor(turn, paintWith) {
    this.turn = turn;
    this.paintWith = paintWith;
    this.stream = new TurnStream();
    /** @type {number | null} the `end` of what is on the screen; null: stored text, not counted */
    this.painted = 0;
    this.isFrozen = false;
    this.frame = 0;
    this.beganAt = Date.now();
    this.waitingText = element("span", { text: "Waiting for the first word" });
    this.waiting = element(
      "p",
      { class: "waiting" },
      element("span", { class: "dot", "aria-hidden": "true" }),
      this.waitingText,
    );
    this.body = element("div", { class: "body" }, this.waiting);
    this.element = element(
      "article",
      { class: "message message-assistant", "data-live": true, "aria-busy": "true" },
      element("h2", { class: "sr-only", text: "Assistant" }),
      this.body,
    );
    /** @type {HTMLElement[]} */
    this.tail = [];
    this.ticker = setInterval(() => this.#countWaiting(), 1_000);
  }

  /**
   * @param {import("./types.js").Frame} frame
   * @returns {boolean} false when something is missing
   */
  apply(frame) {
    const isWhole = this.stream.apply(frame);
    if (!this.isFrozen && !this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        if (!this.isFrozen) this.paintWith(() => this.#paint());
      });
    }
    return isWhole;
  }

  /** The text as it was stored; shown until the running process has told the whole. */
  showStored(/** @type {string} */ text) {
    this.waiting.remove();
    this.#setTail(text);
    this.painted = null;
  }

  /** Stop was pressed: what is on the screen is what will be kept. */
  freeze() {
    this.isFrozen = true;
    this.waitingText.textContent = "Stopping";
  }

  /** Hand the finished blocks over; the unfinished text goes, its message brings the rest. */
  takeBody() {
    this.#paint();
    this.#setTail("");
    this.waiting.remove();
    return this.body;
  }

  dispose() {
    cancelAnimationFrame(this.frame);
    clearInterval(this.ticker);
  }

  #paint() {
    const { blocks, tail, added } = this.stream.takeChanges();
    if (this.stream.end) this.waiting.remove();
    if (blocks.length) {
      const nodes = serverHtml(blocks.join(""));
      addCopyButtons(nodes);
      if (this.tail[0]) this.tail[0].before(nodes);
      else this.body.append(nodes);
    }
    if (tail !== null) this.#setTail(tail);
    else if (added) this.#addToTail(added);
    this.painted = this.stream.end;
  }

  /** @param {string} text */
  #setTail(text) {
    this.tail.forEach((part) => part.remove());
    this.tail = [];
    if (text) this.#addToTail(text);
  }

  /** A new part begins at a line, so that the break is not seen. @param {string} text */
  #addToTail(text) {
    const last = /** @type {Text | undefined} */ (this.tail.at(-1)?.firstChild ?? undefined);
    const line = last && last.length + text.length > CHUNK ? text.indexOf("\n") : -1;
    if (last && line < 0) {
      last.appendData(text);
      return;
    }
    if (last) last.appendData(text.slice(0, line));
    const rest = document.createTextNode(text.slice(line + 1));
    const part = element("div", { class: "plain", dir: "auto" }, rest);
    this.body.append(part);
    this.tail.push(part);
  }

  #countWaiting() {
    if (this.painted !== 0 || this.isFrozen || !this.waiting.isConnected) return;
    const seconds = Math.round((Date.now() - this.beganAt) / 1000);
    if (seconds >= LONG_WAIT) {
      this.waitingText.textContent = `Still waiting for the first word, ${counted(seconds, "second")}`;
    }
  }
}
