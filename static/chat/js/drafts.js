/** What was typed and not sent, per person and session. It survives reloads, not signing out. */

import { read, removeAll, write } from "./storage.js";

const PREFIX = "chat:kept:";
const SAVE_AFTER = 400; // ms of quiet

export function forgetDrafts() {
  removeAll(PREFIX);
}

/**
 * A message on its way: sent again with the same id until the server has accepted it.
 * @typedef {{clientId: string, text: string, parent: string | null}} Pending
 */

export class Drafts {
  /** @param {string} user */
  constructor(user) {
    this.prefix = `${PREFIX}${user}:`;
    this.isClosed = false;
    /** @type {Map<string, number>} */
    this.timers = new Map();
  }

  /** @param {string | null} session */
  load(session) {
    return read(`${this.prefix}draft:${session ?? "new"}`) ?? "";
  }

  /** @param {string | null} session @param {string} text */
  save(session, text) {
    const key = `${this.prefix}draft:${session ?? "new"}`;
    clearTimeout(this.timers.get(key));
    if (!text) this.#write(key, null);
    else this.timers.set(key, setTimeout(() => this.#write(key, text), SAVE_AFTER));
  }

  /** @param {string} session @returns {Pending | null} */
  pending(session) {
    const kept = read(`${this.prefix}pending:${session}`);
    return kept ? JSON.parse(kept) : null;
  }

  /** @param {string} session @param {Pending | null} pending */
  keepPending(session, pending) {
    this.#write(`${this.prefix}pending:${session}`, pending && JSON.stringify(pending));
  }

  /** Signed out: nothing of this person is written down any more. */
  close() {
    this.isClosed = true;
    this.timers.forEach((timer) => clearTimeout(timer));
  }

  /** @param {string} key @param {string | null} value */
  #write(key, value) {
    if (!this.isClosed) write(key, value);
  }
}
