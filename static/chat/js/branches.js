/** The branches of a conversation: which one is shown, and going over to another. */

import { whoStays } from "./attention.js";
import { confirm } from "./dialogs.js";
import { focusVersions, versionWords } from "./versions.js";

const AROUND = "limit=50";

/** @typedef {{message: string, from: import("./message-view.js").MessageView}} Step to a version, by whose button */

/**
 * @typedef {object} BranchDependencies
 * @property {string} session
 * @property {import("./api.js").Api} api
 * @property {import("./message-list.js").MessageList} list
 * @property {import("./reading-position.js").ReadingPosition} position
 * @property {import("./announcer.js").Announcer} announcer
 * @property {() => void} onShown another branch is on the page
 * @property {(text: string) => void} onNotice
 */

export class Branches {
  /** @param {BranchDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    this.isSelecting = false;
    /** @type {Step | null} what was pressed while another version was on its way */
    this.again = null;
    this.head = ""; // of the branch that was chosen here, until word of it has come
    this.heard = ""; // the head that was told while one was being chosen
  }

  /** Whether word of a branch is about what is on the page already. @param {string} head */
  knows(head) {
    if (this.isSelecting) {
      this.heard = head;
      return true;
    }
    const isKnown = head === this.head;
    this.head = ""; // it comes once; the same head later means that somebody has gone back to it
    return isKnown;
  }

  /** What was found may stand on a branch that is not shown. @param {string} message @param {number} seq */
  async offer(message, seq) {
    const answer = await confirm({
      title: "Show another branch?",
      text: "This message was answered anew or written anew since. It stands on a branch that is not shown.",
      more: "The conversation goes on from the branch that is shown, and its messages are sent along.",
      action: "Show it",
    });
    if (!answer) return;
    await this.#selecting(async () => {
      await this.#select(message);
      if (!this.need.list.isDisposed) await this.need.list.toSeq(seq);
    });
  }

  /**
   * What stands in the place of a message, or after it where the branch ends there.
   * @param {string} message @param {import("./message-view.js").MessageView} from whose button it was
   */
  async choose(message, from) {
    this.again = { message, from };
    if (this.isSelecting) return;
    try {
      await this.#selecting(() => this.#goThrough({ message, from }));
    } catch (error) {
      this.need.onNotice(`The other version is not shown: ${/** @type {Error} */ (error).message}`);
    }
  }

  /** One version, and those that are wished for until it is there. @param {Step} first */
  async #goThrough(first) {
    for (let step = /** @type {Step | null} */ (first); step; ) {
      this.again = null;
      await this.#goOver(step);
      step = this.again && this.#further(this.again);
    }
  }

  /** A button that was pressed twice means one version further. @param {Step} again @returns {Step | null} */
  #further({ message, from }) {
    const shown = this.need.list.find(message);
    if (!shown) return from.element.isConnected ? { message, from } : null;
    const siblings = shown.rows[0].siblings ?? [];
    const by = siblings.indexOf(message) - siblings.indexOf(from.rows[0].id);
    const next = siblings[siblings.indexOf(message) + by];
    return next ? { message: next, from: shown } : null;
  }

  /** @param {Step} step */
  async #goOver({ message, from }) {
    const isStaying = whoStays();
    const { api, list, position, session, announcer } = this.need;
    const siblings = from.rows[0].siblings ?? [];
    const isLater = siblings.indexOf(message) > siblings.indexOf(from.rows[0].id);
    const isBeside = siblings.includes(message);
    const { seq } = await this.#select(message);
    const page = await api.get(`sessions/${session}/messages/?around=${seq}&${AROUND}`);
    if (list.isDisposed) return;
    const top = from.element.getBoundingClientRect().top;
    position.isFollowing = false;
    list.replaceAfter(isBeside ? from.firstSeq - 1 : from.seq, page);
    const shown = list.at(seq);
    this.need.onShown();
    if (!shown) return;
    if (isBeside) position.moveTo(shown.element, top);
    if (isStaying()) focusVersions(shown.element, isLater);
    announcer.say(`${versionWords(shown.rows[0])}.`);
  }

  /** @param {string} message */
  async #select(message) {
    this.heard = "";
    const chosen = await this.need.api.post(`sessions/${this.need.session}/messages/${message}/select/`, {});
    this.head = this.heard === chosen.head ? "" : chosen.head;
    return chosen;
  }

  /** The order to read again that this gives does not lead away from it. @param {() => Promise<void>} work */
  async #selecting(work) {
    this.isSelecting = true;
    try {
      await work();
    } finally {
      this.isSelecting = false;
    }
  }
}
