/** The branches of a conversation: which one is shown, and going over to another. */

import { confirm } from "./dialogs.js";
import { focusVersions, versionWords } from "./versions.js";

const AROUND = "limit=50";

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
    if (this.isSelecting) return;
    try {
      await this.#selecting(() => this.#goOver(message, from));
    } catch (error) {
      this.need.onNotice(`The other version is not shown: ${/** @type {Error} */ (error).message}`);
    }
  }

  /** @param {string} message @param {import("./message-view.js").MessageView} from */
  async #goOver(message, from) {
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
    focusVersions(shown.element, isLater);
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
