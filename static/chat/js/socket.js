/** The websocket of one session: connects, reconnects, and says honestly how things are. */

const FIRST_PAUSE = 500; // ms; doubles with each try
const LONGEST_PAUSE = 15_000;
const BUSY_PAUSE = 20_000; // after 4429
const CONNECT_WITHIN = 10_000;
const PING_EVERY = 25_000;
const PONG_WITHIN = 10_000;
const QUIET_TRIES = 3; // after a restart of the server nobody needs to be alarmed at once

const RESTART = 1012;
const SIGNED_OUT = 4401;
const FORBIDDEN_ORIGIN = 4403;
const NOT_FOUND = 4404;
const IDLE = 4408;
const TOO_LARGE = 4413;
const TOO_MANY = 4429;
/** @type {Record<number, string>} */
const FINAL = { [SIGNED_OUT]: "signed-out", [NOT_FOUND]: "gone", [FORBIDDEN_ORIGIN]: "forbidden" };

/**
 * connecting; online; waiting (`retryAt`, `quiet`); idle; too-large; signed-out; gone; forbidden
 * @typedef {{name: string, retryAt?: number, quiet?: boolean}} SocketState
 */

export class ChatSocket {
  /**
   * @param {string} path
   * @param {(frame: import("./types.js").Frame) => void} onFrame
   * @param {(state: SocketState) => void} onState
   */
  constructor(path, onFrame, onState) {
    this.path = path;
    this.onFrame = onFrame;
    this.onState = onState;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.tries = 0;
    this.isReady = false; // greeted by the server
    this.isRestarting = false;
    this.isClosed = false;
    this.pingedAt = 0;
    /** @type {number | undefined} */
    this.timer = undefined;
    this.pinger = setInterval(() => this.probe(), PING_EVERY);
    this.onOnline = () => this.retryNow();
    this.onVisible = () => document.visibilityState === "visible" && this.retryNow();
    this.onOffline = () => this.probe();
    addEventListener("online", this.onOnline);
    addEventListener("offline", this.onOffline);
    document.addEventListener("visibilitychange", this.onVisible);
  }

  open() {
    if (this.isClosed || this.socket) return;
    this.onState({ name: "connecting", quiet: this.isRestarting });
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}${this.path}`);
    this.socket = socket;
    this.timer = setTimeout(() => this.#lost(socket, 0), CONNECT_WITHIN);
    socket.addEventListener("message", (event) => {
      if (this.socket === socket) this.#receive(event.data);
    });
    socket.addEventListener("close", (event) => this.#lost(socket, event.code));
  }

  /** @param {import("./types.js").Frame} frame @returns {boolean} whether it went out */
  send(frame) {
    if (!this.isOnline) return false;
    /** @type {WebSocket} */ (this.socket).send(JSON.stringify(frame));
    return true;
  }

  get isOnline() {
    return this.socket?.readyState === WebSocket.OPEN && this.isReady;
  }

  retryNow() {
    if (this.socket || this.isClosed) return;
    clearTimeout(this.timer);
    this.tries = 0;
    this.open();
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.timer);
    clearInterval(this.pinger);
    this.#ignoreActivity();
    removeEventListener("online", this.onOnline);
    removeEventListener("offline", this.onOffline);
    document.removeEventListener("visibilitychange", this.onVisible);
    this.socket?.close();
    this.socket = null;
  }

  /** @param {string} data */
  #receive(data) {
    const frame = JSON.parse(data);
    if (frame.type === "session.ready") {
      clearTimeout(this.timer);
      this.tries = 0;
      this.isReady = true;
      this.isRestarting = false;
      this.pingedAt = 0;
      this.onState({ name: "online" });
    }
    if (frame.type === "pong") this.pingedAt = 0;
    else this.onFrame(frame);
  }

  /** A line can be dead without saying so: no pong, no line. */
  probe() {
    if (!this.isOnline || this.pingedAt) return;
    const socket = /** @type {WebSocket} */ (this.socket);
    this.pingedAt = Date.now();
    socket.send('{"type":"ping"}');
    setTimeout(() => {
      if (this.pingedAt && Date.now() - this.pingedAt >= PONG_WITHIN) this.#lost(socket, 0);
    }, PONG_WITHIN);
  }

  /** @param {WebSocket} socket @param {number} code */
  #lost(socket, code) {
    if (this.socket !== socket || this.isClosed) return;
    clearTimeout(this.timer);
    this.socket = null;
    this.isReady = false;
    socket.close();
    if (FINAL[code]) {
      this.close();
      this.onState({ name: FINAL[code] });
    } else if (code === IDLE) {
      this.onState({ name: "idle" });
      this.#wakeOnActivity();
    } else {
      if (code === TOO_LARGE) this.onState({ name: "too-large" });
      if (code === RESTART) this.isRestarting = true;
      this.#retryLater(code === TOO_MANY ? BUSY_PAUSE : 0);
    }
  }

  /** Full jitter, so that a restarted server is not met by everyone at once. @param {number} least */
  #retryLater(least) {
    const longest = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** this.tries);
    const pause = least + 100 + Math.random() * longest;
    this.tries += 1;
    const quiet = this.isRestarting && this.tries <= QUIET_TRIES;
    this.onState({ name: "waiting", retryAt: Date.now() + pause, quiet });
    this.timer = setTimeout(() => this.open(), pause);
  }

  #wakeOnActivity() {
    this.onActivity = () => {
      this.#ignoreActivity();
      this.retryNow();
    };
    addEventListener("pointerdown", this.onActivity);
    addEventListener("keydown", this.onActivity);
  }

  #ignoreActivity() {
    if (!this.onActivity) return;
    removeEventListener("pointerdown", this.onActivity);
    removeEventListener("keydown", this.onActivity);
    this.onActivity = undefined;
  }
}
