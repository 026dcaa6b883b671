/** Reading a conversation while its frames come in: they wait, and are applied on top of what was read. */

/**
 * @typedef {object} ReadingDependencies
 * @property {() => Promise<[import("./types.js").Session, import("./types.js").MessagePage]>} fetch
 * @property {(session: import("./types.js").Session, page: import("./types.js").MessagePage) => void} onRead
 * @property {(frame: import("./types.js").Frame) => void} onFrame
 * @property {(error: Error) => void} onFailed
 * @property {() => boolean} isOver the reader has left
 */

export class SessionReading {
  /** @param {ReadingDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    /** @type {import("./types.js").Frame[] | null} */
    this.waiting = []; // null: nothing is being read, and frames are applied as they come
    this.isReading = false;
    this.mustReadAgain = false;
  }

  /** @param {import("./types.js").Frame} frame */
  receive(frame) {
    if (this.waiting) this.waiting.push(frame);
    else this.need.onFrame(frame);
  }

  /** @returns {Promise<boolean>} whether that worked */
  async read() {
    this.waiting ??= [];
    try {
      const [session, page] = await this.need.fetch();
      if (this.need.isOver()) return false;
      this.need.onRead(session, page);
      this.#applyWaiting();
      return true;
    } catch (error) {
      if (!this.need.isOver()) this.need.onFailed(/** @type {Error} */ (error));
      return false;
    }
  }

  /** Something was missed. @returns {Promise<boolean>} whether it was read now, by this call */
  async readAgain() {
    this.mustReadAgain = this.isReading; // what is being read may be older than what was told now
    if (this.isReading || this.need.isOver()) return false;
    this.isReading = true;
    let isRead = await this.read();
    while (isRead && this.mustReadAgain) {
      this.mustReadAgain = false;
      isRead = await this.read();
    }
    this.isReading = false;
    return isRead;
  }

  #applyWaiting() {
    const frames = this.waiting ?? [];
    this.waiting = null;
    frames.forEach((frame) => this.need.onFrame(frame));
  }
}
