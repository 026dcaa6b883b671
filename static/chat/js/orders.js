/** What the reader asks for beside messages: over the socket, and over REST where that would be lost. */

const ORDER_WAITS = "It is done as soon as there is a connection.";
const STOP_WAITS = "It is stopped as soon as the connection is back.";

/**
 * @typedef {object} OrderDependencies
 * @property {string} session
 * @property {import("./api.js").Api} api
 * @property {import("./outbox.js").Outbox} outbox
 * @property {import("./socket.js").ChatSocket} socket
 * @property {import("./turn-follower.js").TurnFollower} follower
 * @property {import("./preference-view.js").PreferenceActions} preferenceActions
 * @property {() => void} onGoingOn what comes stands at the end, wherever the reader is
 * @property {(text: string, tone?: string) => void} onNotice
 */

export class Orders {
  /** @param {OrderDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    this.isSaid = false; // that an order waits
  }

  /** @param {string} turn */
  retry(turn) {
    this.#order("turn.retry", turn);
  }

  /** @param {string} turn */
  regenerate(turn) {
    this.#order("turn.regenerate", turn);
  }

  /** @param {string} turn */
  goOn(turn) {
    this.need.onGoingOn();
    this.#order("turn.continue", turn);
  }

  /** @param {string} type @param {string} turn */
  #order(type, turn) {
    if (this.need.outbox.orderTurn(type, turn)) return;
    this.isSaid = true;
    this.need.onNotice(ORDER_WAITS, "plain");
  }

  /** Something was accepted: nothing waits any more. */
  accepted() {
    if (this.isSaid) this.need.onNotice("", "plain");
    this.isSaid = false;
  }

  async stop() {
    const { session, api, socket, follower, onNotice } = this.need;
    const wish = follower.stop();
    if (!wish || socket.send({ type: "turn.stop", ...wish })) return;
    try {
      await api.post(`sessions/${session}/turns/${wish.turn}/stop/`, { seen: wish.seen });
    } catch (error) {
      const { message, isOffline } = /** @type {import("./api.js").ApiError} */ (error);
      onNotice(isOffline ? STOP_WAITS : `It was not stopped: ${message}`);
    }
  }

  /** After a broken line: the wish to stop may not have arrived. @param {string | null} running the turn that runs */
  stopAgain(running) {
    const { socket, follower } = this.need;
    if (follower.wish && follower.wish.turn === running) socket.send({ type: "turn.stop", ...follower.wish });
  }

  /** @param {number} id @param {boolean} keep */
  async answerPreference(id, keep) {
    if (this.need.socket.send({ type: "preference.answer", id, keep })) return;
    await this.need.preferenceActions.onAnswer(id, keep);
  }
}
