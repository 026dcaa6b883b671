/** How the connection and the turn are, in words that are true. */

import { byId, button } from "./dom.js";
import { number } from "./format.js";

const PATIENCE = 700; // ms before connecting is worth a word
const RECOVERED_FOR = 4_000;

export class Status {
  /** @param {{onRetry: () => void}} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    this.line = byId("connection");
    this.text = byId("connection-text");
    this.banner = byId("banner");
    this.isRunning = false;
    this.isStopping = false;
    this.wasLost = false;
    /** @type {import("./socket.js").SocketState} */
    this.state = { name: "none" };
    /** @type {number | undefined} */
    this.timer = undefined;
  }

  /** No session is open: there is nothing to be connected to. */
  reset() {
    this.wasLost = false;
    this.setRunning(false, false);
    this.setConnection({ name: "none" });
  }

  /** @param {boolean} isRunning @param {boolean} isStopping */
  setRunning(isRunning, isStopping) {
    this.isRunning = isRunning;
    this.isStopping = isStopping;
    if (this.state.name === "online") this.#drawOnline();
  }

  /** @param {import("./socket.js").SocketState} state */
  setConnection(state) {
    clearInterval(this.timer);
    const before = this.state;
    this.state = state;
    if (state.name === "online") this.#online();
    else if (state.name === "connecting") this.#connecting(before, state);
    else if (state.name === "waiting") this.#waiting(state);
    else if (state.name === "idle") this.#idle();
    else if (state.name === "signed-out") this.#signedOut();
    else if (state.name === "forbidden") this.#forbidden();
    else this.#show("none", "");
  }

  // --- States ---------------------------------------------------------------------------------

  #online() {
    this.#drawOnline();
    if (!this.wasLost) {
      this.#hideBanner();
      return;
    }
    this.wasLost = false;
    this.#showBanner("good", "Connected again. Nothing was lost.");
    this.timer = setTimeout(() => this.#hideBanner(), RECOVERED_FOR);
  }

  #drawOnline() {
    if (this.isStopping) this.#show("busy", "Stopping");
    else if (this.isRunning) this.#show("busy", "Answering");
    else this.#show("online", "Connected");
  }

  /** @param {import("./socket.js").SocketState} before @param {import("./socket.js").SocketState} state */
  #connecting(before, state) {
    if (before.name === "waiting" && !state.quiet) {
      this.#show("offline", "Trying to connect");
      return;
    }
    if (state.quiet) return;
    this.#show("connecting", "");
    this.timer = setTimeout(() => this.#show("connecting", "Connecting"), PATIENCE);
  }

  /** @param {import("./socket.js").SocketState} state */
  #waiting(state) {
    if (state.quiet) {
      this.#show("connecting", "The server restarts");
      return;
    }
    this.wasLost = true;
    if (!navigator.onLine) {
      this.#show("offline", "Offline");
      this.#showBanner("warn", "You are offline. Go on writing: it is sent when the connection is back.");
      return;
    }
    const draw = () => {
      const seconds = Math.max(0, Math.ceil(((state.retryAt ?? 0) - Date.now()) / 1000));
      this.#show("offline", seconds ? `No connection, next try in ${number(seconds)} s` : "Trying to connect");
    };
    draw();
    this.timer = setInterval(draw, 1_000);
    this.#showBanner(
      "warn",
      "The server cannot be reached. Go on writing: it is sent when the connection is back.",
      button("Try now", () => this.need.onRetry()),
    );
  }

  #idle() {
    this.#show("idle", "Paused, since nothing happened for long. Press a key to go on.");
  }

  #signedOut() {
    this.#show("ended", "Signed out");
    this.#showBanner(
      "danger",
      "You are signed out, perhaps in another window. What you wrote stands below; copy it if it matters.",
      button("Sign in again", () => {
        location.href = `/accounts/login/?next=${encodeURIComponent(location.pathname)}`;
      }),
    );
  }

  #forbidden() {
    this.#show("ended", "Refused");
    this.#showBanner("danger", "The server refuses connections from this address. Ask whoever runs it.");
  }

  // --- Drawing --------------------------------------------------------------------------------

  /** @param {string} state @param {string} text */
  #show(state, text) {
    this.line.dataset.state = state;
    this.line.hidden = state === "none";
    this.text.textContent = text;
    if (state === "none") this.#hideBanner();
  }

  /** @param {string} tone @param {string} text @param {HTMLElement} [action] */
  #showBanner(tone, text, action) {
    if (this.banner.textContent?.startsWith(text) && !this.banner.hidden) return;
    this.banner.dataset.tone = tone;
    this.banner.replaceChildren(text, action ?? "");
    this.banner.hidden = false;
  }

  #hideBanner() {
    this.banner.hidden = true;
    this.banner.replaceChildren();
  }
}
