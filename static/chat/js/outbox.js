/** What goes out: the one message on its way, and the orders that wait for an answer. */

import { imageRow } from "./attached-images.js";
import { element, newId } from "./dom.js";
import { number } from "./format.js";

/**
 * @typedef {object} OutboxDependencies
 * @property {string} session
 * @property {import("./drafts.js").Drafts} drafts
 * @property {HTMLElement} container of the messages
 * @property {import("./reading-position.js").ReadingPosition} position
 * @property {(frame: import("./types.js").Frame) => boolean} transmit whether it went out
 * @property {(text: string, why: string, attachments: import("./types.js").Attachment[]) => void} giveBack
 *   a refused message returns to the box
 */

export class Outbox {
  /** @param {OutboxDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    this.maxFrameBytes = Infinity;
    /** @type {import("./drafts.js").Pending | null} */
    this.pending = null;
    /** @type {Map<string, import("./types.js").Frame>} by client id; sent again until they are answered */
    this.orders = new Map();
    this.note = element("p", { class: "quiet", role: "status" });
    this.bubble = element(
      "article",
      { class: "message message-user", "data-pending": true, "data-live": true },
      element("h2", { class: "sr-only", text: "You" }),
    );
  }

  /** A message that a reload interrupted goes on its way again, with the same id. */
  restore() {
    const kept = this.need.drafts.pending(this.need.session);
    if (kept) this.#hold(kept);
  }

  /**
   * Show a message at once and send it as soon as there is a connection.
   * @param {string} text
   * @param {string | null} parent the newest message that its writer has seen
   * @param {import("./types.js").Attachment[]} attachments
   * @returns {string} why it cannot be sent; empty when it is on its way
   */
  send(text, parent, attachments) {
    const pending = { clientId: newId(), text, parent, attachments };
    const size = new TextEncoder().encode(JSON.stringify(frameOf(pending))).length;
    if (size > this.maxFrameBytes) {
      return (
        `The message takes ${number(size)} bytes on its way; ` +
        `${number(this.maxFrameBytes)} are allowed. Shorten it.`
      );
    }
    this.#hold(pending);
    this.#transmitPending();
    return "";
  }

  /** Send, or send again, what has not been accepted yet. */
  transmit() {
    this.orders.forEach((frame) => this.need.transmit(frame));
    this.#transmitPending();
  }

  #transmitPending() {
    if (!this.pending) return;
    const isOut = this.need.transmit(frameOf(this.pending));
    this.note.textContent = isOut ? "Sending" : "Will be sent when the connection is back";
  }

  connectionLost() {
    if (this.pending) this.note.textContent = "Will be sent when the connection is back";
  }

  /** @param {string} clientId @returns {boolean} whether it was the message on its way */
  accepted(clientId) {
    this.orders.delete(clientId);
    if (this.pending?.clientId !== clientId) return false;
    this.#release();
    return true;
  }

  /** @param {string | null} clientId @param {string} why @returns {boolean} whether it was one of ours */
  refused(clientId, why) {
    if (clientId && this.orders.delete(clientId)) return false;
    if (!this.pending || (clientId && this.pending.clientId !== clientId)) return false;
    this.takeBack(why);
    return true;
  }

  /** Nothing can be sent any more: the message returns to the box. @param {string} [why] */
  takeBack(why = "") {
    if (!this.pending) return;
    const { text, attachments = [] } = this.pending;
    this.#release();
    this.need.giveBack(text, why, attachments);
  }

  /**
   * An order about an earlier turn; where there is no connection, it goes out with the next one.
   * @param {string} type @param {string} turn
   * @returns {boolean} whether it went out
   */
  orderTurn(type, turn) {
    const isSame = (/** @type {import("./types.js").Frame} */ each) => each.type === type && each.turn === turn;
    const asked = [...this.orders.values()].find(isSame); // pressed twice: one order
    const frame = asked ?? { type, turn, client_id: newId() };
    this.orders.set(frame.client_id, frame);
    return this.need.transmit(frame);
  }

  /**
   * `message.edit`, whose text stays with its editor while it cannot go out.
   * @param {string} type @param {Record<string, string>} fields @param {string} clientId
   * @returns {boolean} whether it went out
   */
  order(type, fields, clientId) {
    const frame = { type, ...fields, client_id: clientId };
    const isOut = this.need.transmit(frame);
    if (isOut) this.orders.set(clientId, frame);
    return isOut;
  }

  /** @param {import("./drafts.js").Pending} pending */
  #hold(pending) {
    this.pending = pending;
    this.need.drafts.keepPending(this.need.session, pending);
    const body = element("div", { class: "body" });
    body.append(element("div", { class: "plain", dir: "auto", text: pending.text }));
    body.hidden = !pending.text;
    const shown = [this.bubble.firstElementChild, imageRow(pending.attachments), body, this.note];
    this.bubble.replaceChildren(...shown.filter(Boolean));
    this.need.container.append(this.bubble);
    this.need.position.toEnd();
  }

  #release() {
    this.pending = null;
    this.need.drafts.keepPending(this.need.session, null);
    this.bubble.remove();
  }
}

/** @param {import("./drafts.js").Pending} pending @returns {import("./types.js").Frame} */
function frameOf(pending) {
  return {
    type: "message.send",
    client_id: pending.clientId,
    text: pending.text,
    parent: pending.parent,
    attachments: (pending.attachments ?? []).map((each) => each.id),
  };
}
