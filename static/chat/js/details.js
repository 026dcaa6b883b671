/** The details region: its tabs, and the panel "What was sent". */

import { usedRows } from "./answer-extras.js";
import { contextNodes, frameOf } from "./context-view.js";
import { byId, element } from "./dom.js";
import { contextLine } from "./format.js";

const NOTHING = "Nothing has been sent in this conversation yet.";
const READING = "Reading what was sent";

/**
 * @typedef {object} DetailsDependencies
 * @property {import("./api.js").Api} api
 * @property {import("./preference-store.js").PreferenceStore} store
 * @property {import("./preference-view.js").PreferenceActions} preferenceActions
 * @property {() => void} onMemoryShown
 * @property {(frame: import("./types.js").ContextFrame) => void} onNumbers of a request were read
 */

export class Details {
  /** @param {DetailsDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    this.panel = byId("panel-sent");
    this.line = byId("context-line");
    this.tabs = [byId("tab-sent"), byId("tab-memory")];
    /** @type {string | null} */
    this.session = null;
    /** @type {string | null} */
    this.turn = null;
    /** @type {import("./types.js").ContextFrame | null} */
    this.frame = null;
    this.isOpen = false;
    /** @type {import("./context-view.js").Context | null} */
    this.context = null;
    dependencies.store.onChange(() => this.context && this.#drawContext());
    this.tabs.forEach((tab) => {
      tab.addEventListener("click", () => this.select(tab.id));
      tab.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#onTabKey(event));
    });
  }

  /** @param {string} id of a tab */
  select(id) {
    for (const tab of this.tabs) {
      const isSelected = tab.id === id;
      tab.setAttribute("aria-selected", String(isSelected));
      tab.tabIndex = isSelected ? 0 : -1;
      byId(tab.getAttribute("aria-controls")).hidden = !isSelected;
    }
    if (id === "tab-memory") this.need.onMemoryShown();
    else this.#load();
  }

  /** @param {boolean} isOpen */
  setOpen(isOpen) {
    this.isOpen = isOpen;
    const selected = this.tabs.find((tab) => tab.getAttribute("aria-selected") === "true");
    if (isOpen) this.select(selected.id);
  }

  /** Another session, with the newest turn that is known of it. @param {string | null} session */
  setSession(session) {
    this.session = session;
    this.#setTurn(null, null);
    this.#say(session ? READING : NOTHING);
  }

  /**
   * @param {string | null} turn
   * @param {import("./types.js").ContextFrame | null} frame its numbers, when they came with it
   */
  setTurn(turn, frame) {
    this.#setTurn(turn, frame);
    this.#say(turn ? READING : NOTHING);
    if (turn) this.#load();
  }

  /** @param {string | null} turn @param {import("./types.js").ContextFrame | null} frame */
  #setTurn(turn, frame) {
    this.turn = turn;
    this.frame = frame;
    this.context = null;
    this.#drawLine();
  }

  /** The parts that stand open stay open. */
  #drawContext() {
    const { store, preferenceActions } = this.need;
    const boxes = () => [...this.panel.querySelectorAll("details.part")];
    const open = boxes().map((box) => box.open);
    const context = /** @type {import("./context-view.js").Context} */ (this.context);
    const used = usedRows(context.manifest.preferences, store, preferenceActions);
    const frame = /** @type {import("./types.js").ContextFrame} */ (this.frame);
    this.#draw(contextNodes(frame, context, used));
    boxes().forEach((box, index) => box.toggleAttribute("open", Boolean(open[index])));
  }

  /** @param {string} text */
  #say(text) {
    this.#draw([element("p", { class: "quiet", text })]);
  }

  /** @param {Node[]} nodes */
  #draw(nodes) {
    this.panel.replaceChildren(...nodes);
  }

  #drawLine() {
    this.line.hidden = !this.frame;
    if (this.frame) byId("context-line-text").textContent = contextLine(this.frame);
  }

  /** The parts are read when they are looked at; the line needs the numbers alone. */
  async #load() {
    const { turn, session } = this;
    if (!turn || !session || (!this.isOpen && this.frame)) return;
    try {
      const context = await this.need.api.get(`sessions/${session}/turns/${turn}/context/`);
      if (turn !== this.turn) return;
      if (!this.frame) {
        this.frame = { ...frameOf(context), turn };
        this.#drawLine();
        this.need.onNumbers(this.frame);
      }
      this.context = context;
      this.#drawContext();
    } catch (error) {
      if (turn !== this.turn) return;
      this.#say(`What was sent could not be read: ${/** @type {Error} */ (error).message}`);
    }
  }

  /** @param {KeyboardEvent} event */
  #onTabKey(event) {
    if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
    const other = this.tabs.find((tab) => tab !== event.currentTarget);
    this.select(other.id);
    other.focus();
  }
}
