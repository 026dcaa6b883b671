/** The list of sessions: newest activity first, read page by page, renamed and deleted in place. */

import { confirm } from "./dialogs.js";
import { element, iconButton } from "./dom.js";
import { dayGroup, fullTime } from "./format.js";
import { isConfirmKey } from "./keys.js";
import { showReceipt } from "./receipts.js";

/**
 * @typedef {object} SessionListDependencies
 * @property {import("./api.js").Api} api
 * @property {HTMLElement} container
 * @property {(id: string) => void} onOpen
 * @property {(session: import("./types.js").Session) => void} onRenamed
 * @property {(id: string) => void} onDeleted
 * @property {(text: string) => void} onProblem
 */

const UNTITLED = "New conversation";

/** @param {import("./types.js").Session} session */
export const titleOf = (session) => session.title || UNTITLED;

export class SessionList {
  /** @param {SessionListDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    /** @type {Map<string, import("./types.js").Session>} */
    this.sessions = new Map();
    /** @type {string | null} */
    this.current = null;
    /** @type {string | null} */
    this.next = "sessions/";
    this.renaming = "";
    this.isLoading = false;
    this.sentinel = element("p", { class: "session-list-note", text: "Loading" });
    this.observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) this.#loadNext();
    });
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") this.refresh();
    });
  }

  async load() {
    await this.#loadNext();
    this.observer.observe(this.sentinel);
  }

  /** Look again at the newest page: another window may have changed it, or deleted some. */
  async refresh() {
    const known = [...this.sessions.values()]; // one that begins meanwhile is not among them
    const page = await this.#fetch("sessions/");
    if (!page) return;
    const isThere = new Set(page.results.map((/** @type {{id: string}} */ each) => each.id));
    const oldest = page.next ? page.results.at(-1).last_active_at : "";
    for (const { id, last_active_at: at } of known) {
      if (at > oldest && !isThere.has(id)) this.sessions.delete(id);
    }
    this.#draw();
  }

  get newest() {
    return this.#ordered()[0] ?? null;
  }

  /** @param {import("./types.js").Session} session */
  update(session) {
    const known = this.sessions.get(session.id);
    this.sessions.set(session.id, session);
    if (known && sameRow(known, session)) return;
    this.#draw();
  }

  /** @param {string | null} id */
  setCurrent(id) {
    this.current = id;
    this.#draw();
  }

  /** @param {string} id */
  remove(id) {
    if (this.sessions.delete(id)) this.#draw();
  }

  /** @param {string} path @returns {Promise<any>} */
  async #fetch(path) {
    try {
      const page = await this.need.api.get(path);
      for (const session of page.results) this.sessions.set(session.id, session);
      this.#draw();
      return page;
    } catch (error) {
      this.sentinel.textContent = `Could not be loaded: ${/** @type {Error} */ (error).message}`;
      return null;
    }
  }

  async #loadNext() {
    if (this.isLoading || !this.next) return;
    this.isLoading = true;
    const page = await this.#fetch(this.next);
    this.isLoading = false;
    if (!page) return;
    this.next = page.next;
    this.#draw();
    // The end may still be in sight, and then the observer is not told again.
    const box = this.sentinel.getBoundingClientRect();
    if (this.next && box.top < innerHeight && box.height) this.#loadNext();
  }

  #ordered() {
    const all = [...this.sessions.values()];
    return all.sort((a, b) => (a.last_active_at < b.last_active_at ? 1 : -1));
  }

  #draw() {
    if (this.renaming) return; // drawn when the name is written
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.focus;
    /** @type {Node[]} */
    const nodes = [];
    let group = "";
    let list = element("ul");
    for (const session of this.#ordered()) {
      const day = dayGroup(session.last_active_at);
      if (day !== group) {
        group = day;
        list = element("ul", { "aria-label": day });
        nodes.push(element("h2", { class: "session-day", text: day }), list);
      }
      list.append(this.#row(session));
    }
    if (this.next) this.sentinel.textContent = "Loading";
    else if (!nodes.length) this.sentinel.textContent = "Your conversations will stand here.";
    else this.sentinel.textContent = "";
    this.need.container.replaceChildren(...nodes, this.sentinel);
    if (focused) this.#focus(focused);
  }

  /** @param {string} name */
  #focus(name) {
    /** @type {HTMLElement | null} */ (
      this.need.container.querySelector(`[data-focus="${CSS.escape(name)}"]`)
    )?.focus();
  }

  /** @param {import("./types.js").Session} session */
  #row(session) {
    const title = titleOf(session);
    const isCurrent = session.id === this.current;
    const link = element(
      "a",
      {
        class: "session-link",
        href: `/chat/${session.id}/`,
        title: `${title}\n${fullTime(session.last_active_at)}`,
        "aria-current": isCurrent && "page",
        "data-focus": `open-${session.id}`,
        dir: "auto",
        on: { click: (/** @type {MouseEvent} */ event) => this.#onClick(event, session.id) },
      },
      title,
    );
    const rename = iconButton("edit", `Rename ${title}`, () => this.#rename(session, row));
    rename.dataset.focus = `rename-${session.id}`;
    const remove = iconButton("trash", `Delete ${title}`, () => this.#delete(session));
    const row = element(
      "li",
      { class: "session", data: { id: session.id } },
      link,
      session.is_temporary && element("span", { class: "pill", text: "Temporary" }),
      session.running && element("span", { class: "session-busy", title: "An answer is being written" }),
      element("span", { class: "session-tools" }, rename, remove),
    );
    row.toggleAttribute("data-current", isCurrent);
    row.toggleAttribute("data-untitled", !session.title);
    row.toggleAttribute("data-temporary", session.is_temporary);
    return row;
  }

  /** @param {MouseEvent} event @param {string} id */
  #onClick(event, id) {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    this.need.onOpen(id);
  }

  /** @param {import("./types.js").Session} session @param {HTMLElement} row */
  #rename(session, row) {
    this.renaming = session.id;
    const field = element("input", {
      class: "session-name",
      maxlength: 200,
      dir: "auto",
      "aria-label": "Name of the conversation",
    });
    field.value = session.title;
    const end = (/** @type {boolean} */ isKept) => {
      if (this.renaming !== session.id) return;
      this.renaming = "";
      if (isKept) this.#saveName(session, field.value.trim());
      this.#draw();
      this.#focus(`rename-${session.id}`);
    };
    field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (isConfirmKey(event)) end(true);
      if (event.key === "Escape" && !event.isComposing) end(false);
      event.stopPropagation();
    });
    field.addEventListener("blur", () => end(true));
    row.replaceChildren(field);
    field.select();
    field.focus();
  }

  /** @param {import("./types.js").Session} session @param {string} title */
  async #saveName(session, title) {
    if (title === session.title) return;
    this.sessions.set(session.id, { ...session, title });
    try {
      const saved = await this.need.api.patch(`sessions/${session.id}/`, { title });
      this.update(saved);
      this.need.onRenamed(saved);
    } catch (error) {
      this.update(session);
      this.need.onProblem(`It was not renamed: ${/** @type {Error} */ (error).message}`);
    }
  }

  /** @param {import("./types.js").Session} session */
  async #delete(session) {
    const answer = await confirm({
      title: "Delete this conversation?",
      text: `“${titleOf(session)}” goes for good, with everything that was said in it.`,
      action: "Delete",
    });
    if (!answer) return;
    let receipt = null;
    try {
      receipt = (await this.need.api.delete(`sessions/${session.id}/`))?.receipt;
    } catch (error) {
      if (/** @type {any} */ (error).status !== 404) {
        this.need.onProblem(`It was not deleted: ${/** @type {Error} */ (error).message}`);
        return;
      }
    }
    this.remove(session.id);
    this.need.onDeleted(session.id);
    await showReceipt(receipt);
  }
}

/** @param {import("./types.js").Session} a @param {import("./types.js").Session} b */
function sameRow(a, b) {
  return a.title === b.title && a.running === b.running && a.last_active_at === b.last_active_at;
}
