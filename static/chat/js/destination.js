/** Where in a conversation the reader wants to be: the last wish counts, whatever comes in first. */

import { whoStays } from "./attention.js";
import { showFound } from "./found.js";

/**
 * @typedef {object} DestinationDependencies
 * @property {import("./message-list.js").MessageList} list
 * @property {import("./branches.js").Branches} branches
 * @property {import("./reading-position.js").ReadingPosition} position
 * @property {() => void} onDrawn
 * @property {(text: string, tone?: string) => void} onNotice
 * @property {() => boolean} isOver the reader has left
 */

export class Destination {
  /** @param {DestinationDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    /** @type {import("./found.js").Target | null} */
    this.target = null; // at the end
    this.isStaying = whoStays();
  }

  /** @param {import("./found.js").Target | null} target */
  wish(target) {
    this.target = target;
    this.isStaying = whoStays();
  }

  /** Bring what was wished for into sight, and mark it. */
  async goThere() {
    const { target, isStaying } = this;
    const { list, branches, position, onDrawn, onNotice } = this.need;
    if (!target) return;
    try {
      await list.toSeq(target.seq);
      if (this.#isElsewhere(target)) return;
      if (!list.at(target.seq) && target.message) await branches.offer(target.message, target.seq);
    } catch (error) {
      onNotice(`The message could not be shown: ${/** @type {Error} */ (error).message}`);
      return;
    }
    if (this.#isElsewhere(target)) return;
    onDrawn();
    const view = list.at(target.seq);
    if (view) showFound(view.element, target.words, position, isStaying());
    else onNotice(`Message ${target.seq} is not among those that are shown.`, "plain");
  }

  async toLatest() {
    this.wish(null);
    try {
      await this.need.list.toLatest();
    } catch (error) {
      this.need.onNotice(`The latest messages could not be shown: ${/** @type {Error} */ (error).message}`);
      return;
    }
    if (!this.target) this.need.position.toEnd();
  }

  /** @param {import("./found.js").Target} target */
  #isElsewhere(target) {
    return this.need.isOver() || this.target !== target;
  }
}
