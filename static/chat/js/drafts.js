/** What was typed and not sent, per person and session. It survives reloads, not signing out. */

import { read, removeAll, write } from "./storage.js";

const PREFIX = "chat:kept:";
const SIGNED_OUT = "chat:signed-out"; // when that was; other windows hear of it by its change
const SAVE_AFTER = 400; // ms of quiet

/** Signed out in this window: nothing that was typed stays behind, and other windows are told. */
export function forgetDrafts() {
  removeAll(PREFIX);
  write(SIGNED_OUT, String(Date.now()));
}

/** @param {() => void} handler called when another window signs out */
export function onSignedOutElsewhere(handler) {
  addEventListener("storage", (event) => {
    if (event.key === SIGNED_OUT && event.newValue) handler();
  });
}

/**
 * A message on its way: sent again with the same id until the server has accepted it.
 * @typedef {object} Pending
 * @property {string} clientId
 * @property {string} text
 * @property {string | null} parent
 * @property {import("./types.js").Attachment[]} [attachments]
 */

/**
 * A message that is being written anew.
 * @typedef {{message: string, text: string}} Edit
 */

export class Drafts {
  /** @param {string} user */
  constructor(user) {
    this.prefix = `${PREFIX}${user}:`;
    this.isClosed = false;
    /** @type {Map<string, string>} */
    this.unsaved = new Map(); // until a moment of quiet, the next look, or the end of the page
    /** @type {number | undefined} */
    this.timer = undefined;
    addEventListener("pagehide", () => this.#flush());
  }

  /** @param {string | null} session */
  load(session) {
    this.#flush();
    return read(`${this.prefix}draft:${session ?? "new"}`) ?? "";
  }

  /** @param {string | null} session @param {string} text */
  save(session, text) {
    this.#saveSoon(`draft:${session ?? "new"}`, text);
  }

  /** @param {string} session @returns {Edit | null} */
  edit(session) {
    this.#flush();
    const kept = read(`${this.prefix}edit:${session}`);
    return kept ? JSON.parse(kept) : null;
  }

  /** @param {string} session @param {Edit | null} edit */
  keepEdit(session, edit) {
    this.#saveSoon(`edit:${session}`, edit ? JSON.stringify(edit) : "");
  }

  /** @param {string} name @param {string} text */
  #saveSoon(name, text) {
    const key = `${this.prefix}${name}`;
    clearTimeout(this.timer);
    this.unsaved.set(key, text);
    if (text) this.timer = setTimeout(() => this.#flush(), SAVE_AFTER);
    else this.#flush();
  }

  /** Uploaded and not sent. @param {string} session @returns {import("./types.js").Attachment[]} */
  images(session) {
    const kept = read(`${this.prefix}images:${session}`);
    return kept ? JSON.parse(kept) : [];
  }

  /** @param {string} session @param {import("./types.js").Attachment[]} images */
  keepImages(session, images) {
    this.#write(`${this.prefix}images:${session}`, images.length ? JSON.stringify(images) : null);
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
    clearTimeout(this.timer);
  }

  #flush() {
    clearTimeout(this.timer);
    this.unsaved.forEach((text, key) => this.#write(key, text || null));
    this.unsaved.clear();
  }

  /** @param {string} key @param {string | null} value */
  #write(key, value) {
    if (!this.isClosed) write(key, value);
  }
}
