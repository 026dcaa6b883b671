/** Searching one's own messages: the box above the sessions, and what was found in their place. */

import { addressOf } from "./address.js";
import { byId, element } from "./dom.js";
import { counted, fullTime, time } from "./format.js";
import { isComposing } from "./keys.js";

const QUIET = 250; // ms without a key before the search goes out
const MOST = 30;
const SPEAKERS = { user: "you", assistant: "assistant" };

/**
 * @typedef {object} Found
 * @property {string} session
 * @property {string} title
 * @property {string} message its id
 * @property {number} seq
 * @property {string} role
 * @property {string} at
 * @property {Piece[]} snippet
 * @property {"words" | "near" | "day" | "other"} found_by
 * @property {{seq: number, role: string, snippet: Piece[]} | null} near
 *
 * @typedef {{text: string, hit: boolean}} Piece
 *
 * @typedef {object} SearchDependencies
 * @property {import("./api.js").Api} api
 * @property {(session: string, target: import("./found.js").Target) => void} onOpen
 * @property {() => void} onShow the region of sessions must be in sight
 */

export class SearchBox {
  /** @param {SearchDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    this.field = byId("search-words");
    this.here = byId("search-here");
    this.note = byId("search-note");
    this.list = byId("search-results");
    /** @type {string | null} */
    this.session = null;
    this.asked = 0; // an answer to an older question is not shown
    this.shownFor = ""; // the words whose results stand in the list
    /** @type {number | undefined} */
    this.timer = undefined;
    this.#listen();
  }

  /** @param {string | null} session the one that is open */
  setSession(session) {
    this.session = session;
    if (!session) this.here.checked = false;
    this.#drawPlace();
  }

  /** @param {string} [words] to search for at once */
  open(words = "") {
    this.need.onShow();
    if (words) this.field.value = words;
    this.field.focus();
    this.field.select();
    if (words) this.#search();
  }

  close() {
    this.field.value = "";
    this.#search();
  }

  #listen() {
    this.field.addEventListener("input", (/** @type {InputEvent} */ event) => {
      clearTimeout(this.timer);
      if (!event.isComposing) this.timer = setTimeout(() => this.#search(), QUIET);
    });
    this.field.addEventListener("compositionend", () => this.#search());
    this.here.addEventListener("change", () => this.#search());
    byId("search-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#openFirst();
    });
    for (const part of [this.field, this.list]) {
      part.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#onKey(event));
    }
  }

  async #search() {
    clearTimeout(this.timer);
    const words = this.field.value.trim();
    this.asked += 1;
    const { asked } = this;
    this.shownFor = "";
    this.#drawPlace();
    if (!words) {
      this.list.replaceChildren();
      this.note.textContent = "";
      return;
    }
    const query = new URLSearchParams({ q: words, limit: String(MOST) });
    if (this.here.checked && this.session) query.set("session", this.session);
    try {
      const found = await this.need.api.get(`search/?${query}`);
      if (asked === this.asked) this.#show(found);
    } catch (error) {
      if (asked !== this.asked) return;
      this.list.replaceChildren();
      this.note.textContent = `The search failed: ${/** @type {Error} */ (error).message}`;
    }
    if (asked === this.asked) this.shownFor = words;
  }

  #drawPlace() {
    const isOpen = Boolean(this.field.value.trim());
    byId("search-panel").hidden = !isOpen;
    byId("session-shelf").hidden = isOpen;
    byId("search-here-label").hidden = !isOpen || !this.session;
  }

  /** @param {{results: Found[], notice: string | null}} found */
  #show({ results, notice }) {
    const count = results.length < MOST ? `${counted(results.length, "message")}.` : `The first ${MOST} messages.`;
    this.note.textContent = [results.length ? count : "Nothing was found.", notice].filter(Boolean).join(" ");
    const hadFocus = this.list.contains(document.activeElement);
    this.list.replaceChildren(...results.map((each) => element("li", {}, this.#link(each))));
    if (hadFocus) (this.list.querySelector("a") ?? this.field).focus();
  }

  /** @param {Found} found */
  #link(found) {
    const words = found.snippet.filter((piece) => piece.hit).map((piece) => piece.text);
    const onClick = (/** @type {MouseEvent} */ event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
      event.preventDefault();
      this.need.onOpen(found.session, { seq: found.seq, words, message: found.message });
    };
    const speaker = SPEAKERS[/** @type {"user"} */ (found.role)] ?? found.role;
    return element(
      "a",
      { class: "search-result", href: addressOf(found.session, found.seq), on: { click: onClick } },
      element("strong", { dir: "auto", text: found.title || "New conversation" }),
      element(
        "span",
        { class: "search-snippet", dir: "auto" },
        ...marked(found.snippet),
      ),
      reason(found),
      element("small", { title: fullTime(found.at), text: `${speaker}, ${time(found.at)}` }),
    );
  }

  // --- Keys -----------------------------------------------------------------------------------

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (isComposing(event)) return;
    if (event.key === "Escape" && this.field.value) {
      this.close();
      this.field.focus();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      this.#step(event.key === "ArrowDown" ? 1 : -1);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** The box, then one result after the other. @param {number} by */
  #step(by) {
    const stops = [this.field, ...this.list.querySelectorAll("a")];
    const at = stops.indexOf(document.activeElement);
    stops[Math.min(stops.length - 1, Math.max(0, at + by))].focus();
  }

  async #openFirst() {
    const words = this.field.value.trim();
    if (this.shownFor !== words) await this.#search();
    const isStillMeant = words === this.shownFor && words === this.field.value.trim();
    if (isStillMeant) this.list.querySelector("a")?.click();
  }
}

/** @param {Piece[]} pieces */
function marked(pieces) {
  return pieces.map((piece) => (piece.hit ? element("mark", { text: piece.text }) : piece.text));
}

/** Why it was found, where its own words do not say it. @param {Found} found */
function reason({ found_by: by, near }) {
  if (by === "day") return element("span", { class: "search-reason", text: "Said on that day" });
  if (by !== "near" || !near) return null;
  return element(
    "span",
    { class: "search-reason" },
    "Next to: ",
    element("bdi", {}, ...marked(near.snippet)),
  );
}
