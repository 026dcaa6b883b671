/**
 * The text of one answer as it comes in. Offsets are the server's (Unicode code points); the text is
 * kept in the pieces in which it came, each with the offsets that came with it.
 */

/**
 * Where the first `count` code points of a text end, in UTF-16 units.
 * @param {string} text @param {number} count
 */
export function codePointIndex(text, count) {
  let index = 0;
  for (let left = count; left > 0 && index < text.length; left -= 1) {
    index += /** @type {number} */ (text.codePointAt(index)) > 0xffff ? 2 : 1;
  }
  return index;
}

/**
 * What is new since the last look: finished blocks, then either the whole unfinished text (`tail`)
 * or, when that is null, what was added to it (`added`).
 * @typedef {{blocks: {from: number, html: string}[], tail: string | null, added: string}} Changes
 */

export class TurnStream {
  constructor() {
    /** @type {{offset: number, end: number, text: string}[]} */
    this.pieces = []; // the unfinished text
    this.end = 0;
    this.done = 0; // where the finished blocks end
    this.html = ""; // of the finished blocks
    /** @type {import("./types.js").Frame[]} */
    this.early = []; // blocks whose text has not come yet
    /** @type {{blocks: {from: number, html: string}[], isReset: boolean, added: string}} */
    this.fresh = { blocks: [], isReset: false, added: "" };
  }

  /**
   * Take in a `turn.snapshot`, `turn.delta` or `turn.html`.
   * @param {import("./types.js").Frame} frame
   * @returns {boolean} false when something is missing: ask for `turn.sync`
   */
  apply(frame) {
    if (frame.type === "turn.snapshot") this.#restart(frame.text, frame.end);
    else if (frame.type === "turn.html") return this.#finish(frame);
    else return this.#append(frame);
    return true;
  }

  /** @returns {Changes} */
  takeChanges() {
    const { blocks, isReset, added } = this.fresh;
    this.fresh = { blocks: [], isReset: false, added: "" };
    return { blocks, tail: isReset ? this.tail : null, added };
  }

  get tail() {
    return this.pieces.map((piece) => piece.text).join("");
  }

  /** @param {import("./types.js").Frame} frame */
  #append(frame) {
    if (frame.end <= this.end) return true; // seen already
    if (frame.offset !== this.end) return false;
    this.pieces.push({ offset: frame.offset, end: frame.end, text: frame.text });
    this.end = frame.end;
    this.fresh.added += frame.text;
    return this.#finishEarly();
  }

  /** All of the text again; what is finished stays, since the text of a turn only grows. */
  #restart(/** @type {string} */ text, /** @type {number} */ end) {
    if (end < this.end) return;
    this.pieces = [{ offset: 0, end, text }];
    this.end = end;
    this.#drop(this.done);
    this.#finishEarly();
  }

  #finishEarly() {
    const early = this.early;
    this.early = [];
    return early.map((frame) => this.#finish(frame)).every(Boolean);
  }

  /** @param {import("./types.js").Frame} frame */
  #finish(frame) {
    if (frame.through <= this.done) return true;
    if (frame.from > this.done) return false;
    if (frame.through > this.end) {
      this.early.push(frame);
      return true;
    }
    this.html += frame.html;
    this.fresh.blocks.push({ from: frame.from, html: frame.html });
    this.done = frame.through;
    this.#drop(frame.through);
    return true;
  }

  /** Leave out of the pieces what comes before an offset. @param {number} offset */
  #drop(offset) {
    const first = this.pieces.findIndex((piece) => piece.end > offset);
    this.pieces = first < 0 ? [] : this.pieces.slice(first);
    const piece = this.pieces[0];
    if (piece && piece.offset < offset) {
      const text = piece.text.slice(codePointIndex(piece.text, offset - piece.offset));
      this.pieces[0] = { offset, end: piece.end, text };
    }
    this.fresh.isReset = true;
  }
}
