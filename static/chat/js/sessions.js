/**
 * The list of conversations: pinned ones first, then by their newest activity, read page by page;
 * archived ones apart. They are named, pinned, archived and deleted in place.
 */

import { confirm } from "./dialogs.js";
import { byId, element } from "./dom.js";
import { dayGroup } from "./format.js";
import { showReceipt } from "./receipts.js";
import { archivedKind, openKind, pinnedKind } from "./session-kinds.js";
import { writeName } from "./session-name.js";
import { sessionRow, titleOf } from "./session-row.js";

/** @typedef {import("./types.js").Session} Session */

/**
 * @typedef {object} SessionListDependencies
 * @property {import("./api.js").Api} api
 * @property {HTMLElement} container
 * @property {(id: string) => void} onOpen
 * @property {(session: Session) => void} onChanged named, pinned or archived here
 * @property {(id: string) => void} onDeleted
 * @property {(text: string) => void} onProblem
 * @property {(text: string) => void} onSaid for who does not see the list
 */

/** @param {Session} a @param {Session} b */
const byActivity = (a, b) => (a.last_active_at < b.last_active_at ? 1 : -1);

export class SessionList {
  /** @param {SessionListDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    /** @type {Map<string, Session>} */
    this.sessions = new Map();
    /** @type {string | null} */
    this.current = null;
    /** @type {Map<string, number>} when each was told last, by the clock of changes */
    this.told = new Map();
    this.clock = 0;
    this.open = openKind();
    this.pinned = pinnedKind();
    this.archived = archivedKind();
    this.isArchive = false; // which of both is shown
    this.renaming = "";
    this.menuOf = ""; // the session whose menu is open
    this.sentinel = element("p", { class: "session-list-note", text: "Loading" });
    this.toggle = byId("archive-toggle");
    this.observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) this.#loadNext();
    });
    this.toggle.addEventListener("click", () => this.#showArchive(!this.isArchive));
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") this.refresh();
    });
    for (const away of ["pointerdown", "focusin"]) {
      document.addEventListener(away, (event) => this.#lookAway(/** @type {Element} */ (event.target)));
    }
  }

  async load() {
    await Promise.all([this.#loadPinned(), this.#loadNext()]);
    this.observer.observe(this.sentinel);
  }

  /** Look again at the newest pages: another window may have changed some, or deleted them. */
  async refresh() {
    for (const session of await this.#lookAgain(this.pinned)) {
      this.sessions.set(session.id, { ...session, is_pinned: false });
    }
    for (const kind of [this.open, ...(this.isArchive ? [this.archived] : [])]) {
      for (const { id } of await this.#lookAgain(kind)) this.sessions.delete(id);
    }
    this.#draw();
  }

  /** The one that is opened when another has gone. */
  get newest() {
    return [...this.sessions.values()].filter(this.open.takes).sort(byActivity)[0] ?? null;
  }

  /** @param {Session} session */
  update(session) {
    const known = this.sessions.get(session.id);
    this.#tell(session.id);
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
    this.#tell(id);
    if (this.sessions.delete(id)) this.#draw();
  }

  // --- Reading --------------------------------------------------------------------------------

  get #kind() {
    return this.isArchive ? this.archived : this.open;
  }

  /** What is being read may be older than this. @param {string} id */
  #tell(id) {
    this.clock += 1;
    this.told.set(id, this.clock);
  }

  /** @param {string} path @returns {Promise<any>} */
  async #fetch(path) {
    const { clock } = this;
    const isOlder = (/** @type {Session} */ { id }) => (this.told.get(id) ?? 0) > clock;
    try {
      const page = await this.need.api.get(path);
      for (const session of page.results) {
        if (!isOlder(session)) this.sessions.set(session.id, session);
      }
      this.#draw();
      return page;
    } catch (error) {
      this.sentinel.textContent = `Could not be loaded: ${/** @type {Error} */ (error).message}`;
      return null;
    }
  }

  /** What was known of a kind and is not among its newest any more. @param {import("./session-kinds.js").Kind} kind */
  async #lookAgain(kind) {
    const known = [...this.sessions.values()].filter(kind.takes); // one that begins meanwhile is not among them
    const page = await this.#fetch(kind.first);
    if (!page) return [];
    const isStill = ({ id }) => this.sessions.has(id) && kind.takes(this.sessions.get(id));
    return kind.missing(known, page).filter(isStill);
  }

  async #loadPinned() {
    while (this.pinned.next) {
      const page = await this.#fetch(this.pinned.next);
      if (!page) return;
      this.pinned.next = page.next;
    }
  }

  async #loadNext() {
    const kind = this.#kind;
    if (kind.isLoading || !kind.next) return;
    kind.isLoading = true;
    const page = await this.#fetch(kind.next);
    kind.isLoading = false;
    if (!page) return;
    kind.next = page.next;
    this.#draw();
    // The end may still be in sight, and then the observer is not told again.
    const box = this.sentinel.getBoundingClientRect();
    if (this.#kind.next && box.top < innerHeight && box.height) this.#loadNext();
  }

  /** @param {boolean} isArchive */
  #showArchive(isArchive) {
    this.isArchive = isArchive;
    this.menuOf = "";
    this.toggle.querySelector("use").setAttribute("href", isArchive ? "#icon-left" : "#icon-archive");
    this.toggle.querySelector("span").textContent = isArchive ? "All conversations" : "Archived";
    this.#draw();
    this.need.container.scrollTop = 0;
    this.#loadNext();
  }

  // --- Drawing --------------------------------------------------------------------------------

  #ordered() {
    const shown = [...this.sessions.values()].filter(this.#kind.takes).sort(byActivity);
    if (this.isArchive) return shown;
    return [...shown.filter(this.pinned.takes), ...shown.filter((each) => !each.is_pinned)];
  }

  #draw() {
    if (this.renaming) return; // drawn when the name is written
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.focus;
    /** @type {Node[]} */
    const nodes = [];
    let group = "";
    let list = element("ul");
    const sessions = this.#ordered();
    for (const session of sessions) {
      const heading = this.pinned.takes(session) ? "Pinned" : dayGroup(session.last_active_at);
      if (heading !== group) {
        group = heading;
        list = element("ul", { "aria-label": heading });
        nodes.push(element("h2", { class: "session-day", text: heading }), list);
      }
      list.append(this.#row(session));
    }
    if (this.isArchive) nodes.unshift(element("p", { class: "shelf-title", text: "Archived conversations" }));
    this.sentinel.textContent = this.#endWords(sessions.length);
    this.need.container.replaceChildren(...nodes, this.sentinel);
    if (focused) this.#focus(focused);
  }

  /** @param {number} count */
  #endWords(count) {
    if (this.#kind.next) return "Loading";
    if (count) return "";
    return this.isArchive ? "Nothing is archived." : "Your conversations will stand here.";
  }

  /** @param {string} name */
  #focus(name) {
    /** @type {HTMLElement | null} */ (
      this.need.container.querySelector(`[data-focus="${CSS.escape(name)}"]`)
    )?.focus();
  }

  /** @param {Session} session */
  #row(session) {
    const { id } = session;
    return sessionRow(session, {
      isCurrent: id === this.current,
      deeds: id === this.menuOf ? this.#deeds(session) : null,
      onOpen: () => this.need.onOpen(id),
      onToggle: () => this.#toggleMenu(id),
      onClose: () => this.#closeMenu(),
    });
  }

  // --- The menu of a row ----------------------------------------------------------------------

  /** @param {Session} session @returns {import("./session-menu.js").Deed[]} */
  #deeds(session) {
    const { is_pinned: isPinned, is_archived: isArchived } = session;
    const deeds = [
      { name: "pin", icon: "pin", label: isPinned ? "Unpin" : "Pin", run: () => this.#pin(session) },
      { name: "rename", icon: "edit", label: "Rename", run: () => this.#rename(session) },
      {
        name: "archive",
        icon: "archive",
        label: isArchived ? "Unarchive" : "Archive",
        run: () => this.#archive(session),
      },
      { name: "delete", icon: "trash", label: "Delete", run: () => this.#delete(session) },
    ];
    return deeds.map((deed) => ({
      ...deed,
      run: () => {
        this.#closeMenu();
        deed.run();
      },
    }));
  }

  /** @param {string} id */
  #toggleMenu(id) {
    if (this.menuOf === id) {
      this.#closeMenu();
      return;
    }
    this.menuOf = id;
    this.#draw();
    const menu = this.need.container.querySelector(".session-menu");
    menu?.scrollIntoView({ block: "nearest" });
    /** @type {HTMLElement | null} */ (menu?.querySelector("[role=menuitem]"))?.focus({ preventScroll: true });
  }

  /** The focus goes back to where it came from. */
  #closeMenu() {
    this.#focus(`menu-${this.menuOf}`);
    this.#dropMenu();
  }

  /** @param {Element} target where the pointer or the focus has gone */
  #lookAway(target) {
    if (!this.menuOf || target.closest?.("[data-menu] :is(.session-tools, .session-menu)")) return;
    this.#dropMenu();
  }

  /** Without drawing anew: what is pressed at this moment must stay in the document. */
  #dropMenu() {
    const row = this.need.container.querySelector("[data-menu]");
    this.menuOf = "";
    row?.removeAttribute("data-menu");
    row?.querySelector(".session-menu")?.remove();
    row?.querySelector("[aria-expanded]")?.setAttribute("aria-expanded", "false");
  }

  /** @param {Session} session */
  async #pin(session) {
    const isPinned = !session.is_pinned;
    await this.#change(session, { is_pinned: isPinned }, isPinned ? "It was not pinned" : "It was not unpinned");
  }

  /** @param {Session} session */
  async #archive(session) {
    const isArchived = !session.is_archived;
    const rows = this.#ordered();
    const at = rows.findIndex((each) => each.id === session.id);
    const next = rows[at + 1] ?? rows[at - 1];
    const why = isArchived ? "It was not archived" : "It was not taken out of the archive";
    const changed = this.#change(session, { is_archived: isArchived }, why);
    if (next) this.#focus(`open-${next.id}`);
    else this.need.container.focus();
    if (!(await changed)) return;
    const title = titleOf(session);
    this.need.onSaid(isArchived ? `“${title}” was archived.` : `“${title}” is among all conversations again.`);
  }

  /** @param {Session} session */
  #rename(session) {
    const row = /** @type {HTMLElement} */ (
      this.need.container.querySelector(`[data-id="${CSS.escape(session.id)}"]`)
    );
    this.renaming = session.id;
    writeName(row, session.title, (title) => {
      this.renaming = "";
      if (title !== null && title !== session.title) this.#change(session, { title }, "It was not renamed");
      this.#draw();
      this.#focus(`menu-${session.id}`);
    });
  }

  /**
   * Shown at once, and taken back when the server refuses.
   * @param {Session} session @param {Partial<Session>} changes @param {string} failure
   * @returns {Promise<boolean>} whether it is so now
   */
  async #change(session, changes, failure) {
    this.update({ ...session, ...changes });
    try {
      const saved = await this.need.api.patch(`sessions/${session.id}/`, changes);
      this.update(saved);
      this.need.onChanged(saved);
      return true;
    } catch (error) {
      this.update(session);
      this.need.onProblem(`${failure}: ${/** @type {Error} */ (error).message}`);
      return false;
    }
  }

  /** @param {Session} session */
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

/** @param {Session} a @param {Session} b */
function sameRow(a, b) {
  return (
    a.title === b.title &&
    a.running === b.running &&
    a.last_active_at === b.last_active_at &&
    a.is_pinned === b.is_pinned &&
    a.is_archived === b.is_archived
  );
}
