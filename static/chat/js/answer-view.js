/** An answer while it is written: finished blocks as HTML, the unfinished rest as text, its tools. */

import { addCopyButtons } from "./code-blocks.js";
import { element, serverHtml } from "./dom.js";
import { characters, counted } from "./format.js";
import { ToolChips, callsOf, statesOf, textOf, toolGroup } from "./tools.js";
import { TurnStream, codePointIndex } from "./turn-stream.js";

const LONG_WAIT = 5; // seconds until the waiting is counted
const CHUNK = 4_000; // characters of unfinished text in one element, so that adding stays cheap

/**
 * Tools stand where the text had got to when they were called.
 * @typedef {{at: number, element: HTMLElement}} ToolPlace
 */

export class AnswerView {
  /**
   * @param {string} turn
   * @param {(write: () => void) => void} paintWith does one DOM write and keeps the reading position
   */
  constructor(turn, paintWith) {
    this.turn = turn;
    this.paintWith = paintWith;
    this.stream = new TurnStream();
    this.tools = new ToolChips();
    /** @type {ToolPlace[]} */
    this.places = [];
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
    /** @type {HTMLElement | null} where more text is added; null: a new part begins */
    this.open = null;
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

  /** `turn.tool` @param {import("./types.js").Frame} frame */
  onTool(frame) {
    const state = /** @type {import("./tools.js").ToolState} */ (/** @type {unknown} */ (frame));
    this.paintWith(() => {
      if (!this.isFrozen) this.#paint();
      this.#note(frame.call, state, this.stream.end);
      this.#drawWaiting();
    });
  }

  /**
   * What is stored of the turn: its text is shown until the running process has told the whole.
   * @param {import("./types.js").Message[]} rows
   */
  showStored(rows) {
    this.noteTools(rows);
    const text = textOf(rows);
    if (text) this.#setTail(text, 0);
    if (text || rows.length) this.painted = null;
    this.#drawWaiting();
  }

  /** Tools that were missed. @param {import("./types.js").Message[]} rows of the turn */
  noteTools(rows) {
    const states = statesOf(rows);
    rows.forEach((row, index) => {
      const at = characters(textOf(rows.slice(0, index + 1)));
      for (const call of callsOf(row)) {
        this.#note(call.id, /** @type {import("./tools.js").ToolState} */ (states.get(call.id)), at);
      }
    });
  }

  /** Stop was pressed: what is on the screen is what will be kept. */
  freeze() {
    this.isFrozen = true;
    this.waitingText.textContent = "Stopping";
  }

  /** Hand the finished blocks over; the unfinished text goes, its message brings the rest. */
  takeBody() {
    this.#paint();
    this.#setTail("", 0);
    this.waiting.remove();
    return this.body;
  }

  dispose() {
    cancelAnimationFrame(this.frame);
    clearInterval(this.ticker);
  }

  #paint() {
    const { blocks, tail, added } = this.stream.takeChanges();
    if (tail !== null) this.#setTail("", 0);
    for (const block of blocks) {
      const nodes = serverHtml(block.html);
      addCopyButtons(nodes);
      this.body.insertBefore(nodes, this.#placeAfter(block.from) ?? this.tail[0] ?? null);
    }
    if (tail !== null) this.#setTail(tail, this.stream.done);
    else if (added) this.#addToTail(added, null);
    this.#drawWaiting();
    this.painted = this.stream.end;
  }

  // --- Tools ----------------------------------------------------------------------------------

  /** @param {string} call @param {import("./tools.js").ToolState} state @param {number} at */
  #note(call, state, at) {
    const isNew = !this.tools.has(call);
    const chip = this.tools.note(call, state);
    if (isNew) this.#placeAt(at).append(chip);
  }

  /** @param {number} at @returns {HTMLElement} the tools that stand there */
  #placeAt(at) {
    const known = this.places.find((place) => place.at === at);
    if (known) return known.element;
    const group = toolGroup();
    this.body.insertBefore(group, this.#placeAfter(at));
    this.places.push({ at, element: group });
    this.places.sort((a, b) => a.at - b.at);
    this.open = null;
    if (at < this.stream.end) this.#setTail(this.stream.tail, this.stream.done);
    return group;
  }

  /** The first tools after an offset. @param {number} offset */
  #placeAfter(offset) {
    return this.places.find((place) => place.at > offset)?.element ?? null;
  }

  // --- Unfinished text ------------------------------------------------------------------------

  /** @param {string} text @param {number} from its offset */
  #setTail(text, from) {
    this.tail.forEach((part) => part.remove());
    this.tail = [];
    this.open = null;
    let rest = text;
    let offset = from;
    for (const place of this.places) {
      if (place.at <= offset) continue;
      const cut = codePointIndex(rest, place.at - offset);
      this.#addToTail(rest.slice(0, cut), place.element);
      this.open = null;
      rest = rest.slice(cut);
      offset = place.at;
    }
    this.#addToTail(rest, null);
  }

  /**
   * A new part begins at a line, so that the break is not seen.
   * @param {string} text @param {HTMLElement | null} before
   */
  #addToTail(text, before) {
    const last = /** @type {Text | undefined} */ (this.open?.firstChild ?? undefined);
    const line = last && last.length + text.length > CHUNK ? text.indexOf("\n") : -1;
    if (last && line < 0) {
      last.appendData(text);
      return;
    }
    if (last) last.appendData(text.slice(0, line));
    const more = last ? text.slice(line + 1) : text.replace(/^\n+/u, "");
    if (!more) return;
    this.open = element("div", { class: "plain", dir: "auto" }, document.createTextNode(more));
    this.body.insertBefore(this.open, before);
    this.tail.push(/** @type {HTMLElement} */ (this.open));
  }

  // --- Waiting --------------------------------------------------------------------------------

  /** The dot stands where the next word comes, while none has come. */
  #drawWaiting() {
    const at = this.places.at(-1)?.at ?? 0;
    const isShown = this.stream.end <= at && this.painted !== null && !this.tools.isRunning;
    if (!isShown) this.waiting.remove();
    else if (this.places.length && !this.isFrozen) this.waitingText.textContent = "Going on";
    if (isShown && this.body.lastChild !== this.waiting) this.body.append(this.waiting);
  }

  #countWaiting() {
    if (this.painted !== 0 || this.places.length || this.isFrozen || !this.waiting.isConnected) return;
    const seconds = Math.round((Date.now() - this.beganAt) / 1000);
    if (seconds >= LONG_WAIT) {
      this.waitingText.textContent = `Still waiting for the first word, ${counted(seconds, "second")}`;
    }
  }
}
