/** The panel "Memory": the switch of this session, clearing it, and the person's preferences. */

import { confirm } from "./dialogs.js";
import { byId, element, textButton } from "./dom.js";
import { isComposing } from "./keys.js";

const ORIGINS = { chat: "from a conversation", user: "written by you", admin: "written by staff", import: "imported" };

/**
 * @typedef {object} MemoryDependencies
 * @property {import("./api.js").Api} api
 * @property {boolean} isAvailable false: switched off for the whole installation
 * @property {(text: string, tone?: string) => void} onNotice
 * @property {(session: string) => void} onOpen
 */

export class MemoryPanel {
  /** @param {MemoryDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    this.list = byId("preferences");
    this.switch = byId("memory-switch");
    this.clear = byId("clear-memory");
    /** @type {string | null} */
    this.session = null;
    this.isOn = true;
    this.switch.addEventListener("change", () => this.#switchMemory());
    this.clear.addEventListener("click", () => this.#clear());
    byId("preference-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#add();
    });
  }

  /** @param {string | null} session */
  setSession(session) {
    this.session = session;
    this.switch.disabled = !session || !this.need.isAvailable;
    this.clear.disabled = !session;
    this.setMemory(this.need.isAvailable);
  }

  /** @param {boolean} isOn */
  setMemory(isOn) {
    this.isOn = isOn;
    this.switch.checked = isOn;
    byId("memory-pill").hidden = isOn || !this.session;
    byId("memory-hint").textContent = this.#hint();
  }

  #hint() {
    if (!this.need.isAvailable) return "Memory is switched off for this whole installation.";
    if (this.isOn) return "The model is sent the newest messages of this conversation with each new one.";
    return "Every message is sent alone: neither earlier messages nor preferences go with it.";
  }

  /**
   * `/remember key: text`
   * @param {string} key @param {string} text @returns {Promise<string>} why not, or nothing
   */
  async remember(key, text) {
    const session = this.session && this.isOn ? { session: this.session } : {};
    await this.need.api.post("preferences/", { key, text, ...session });
    this.need.onNotice(`Remembered: ${key}. It is sent along from your next message on.`, "plain");
    await this.load();
    return "";
  }

  async load() {
    try {
      /** @type {import("./types.js").Preference[]} */
      const all = [];
      for (let next = "preferences/"; next; ) {
        const page = await this.need.api.get(next);
        all.push(...page.results);
        next = page.next;
      }
      this.list.replaceChildren(...all.map((each) => this.#row(each)));
    } catch (error) {
      const why = `They could not be read: ${/** @type {Error} */ (error).message}`;
      this.list.replaceChildren(element("li", { class: "quiet", text: why }));
    }
  }

  // --- Preferences ----------------------------------------------------------------------------

  /** @param {import("./types.js").Preference} preference */
  #row(preference) {
    const isActive = preference.status === "active";
    const toggle = { status: isActive ? "disabled" : "active" };
    const row = element(
      "li",
      { class: "preference" },
      element("p", { class: "preference-key" }, element("bdi", { text: preference.key })),
      element("p", { class: "preference-words", dir: "auto", text: preference.text }),
      element(
        "p",
        { class: "preference-tools" },
        this.#origin(preference),
        textButton(null, "Edit", () => this.#edit(preference, row)),
        textButton(null, isActive ? "Disable" : "Enable", () => this.#change(preference, toggle)),
        textButton(null, "Delete", () => this.#delete(preference)),
      ),
    );
    row.toggleAttribute("data-disabled", !isActive);
    return row;
  }

  /** @param {import("./types.js").Preference} preference */
  #origin(preference) {
    const { source_session: source, scope } = preference;
    const where = scope === "all" ? "" : `, for ${scope} only`;
    const words = `${ORIGINS[/** @type {"chat"} */ (preference.origin)] ?? preference.origin}${where}`;
    if (!source) return element("span", { text: words });
    return textButton(null, words, () => this.need.onOpen(source));
  }

  /** @param {import("./types.js").Preference} preference @param {HTMLElement} row */
  #edit(preference, row) {
    const field = element("textarea", { class: "input", rows: 3, dir: "auto", "aria-label": preference.key });
    field.value = preference.text;
    const save = () => this.#change(preference, { text: field.value });
    field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Escape" && !isComposing(event)) {
        event.stopPropagation();
        this.load();
      }
    });
    row.replaceChildren(
      element("p", { class: "preference-key" }, element("bdi", { text: preference.key })),
      field,
      element(
        "p",
        { class: "preference-tools" },
        textButton(null, "Save", save),
        textButton(null, "Cancel", () => this.load()),
      ),
    );
    field.focus();
  }

  /** @param {import("./types.js").Preference} preference @param {object} changes */
  #change(preference, changes) {
    return this.#attempt(() => this.need.api.patch(`preferences/${preference.id}/`, changes));
  }

  /** @param {import("./types.js").Preference} preference */
  async #delete(preference) {
    const answer = await confirm({
      title: "Forget this?",
      text: `${preference.key}: ${preference.text}`,
      action: "Forget",
    });
    if (answer) await this.#attempt(() => this.need.api.delete(`preferences/${preference.id}/`));
  }

  async #add() {
    const key = byId("preference-key");
    const text = byId("preference-text");
    const isAdded = await this.#attempt(() =>
      this.need.api.post("preferences/", { key: key.value, text: text.value }),
    );
    if (!isAdded) return;
    key.value = "";
    text.value = "";
  }

  /** @param {() => Promise<unknown>} change @returns {Promise<boolean>} */
  async #attempt(change) {
    const problem = byId("preference-error");
    problem.textContent = "";
    try {
      await change();
    } catch (error) {
      problem.textContent = /** @type {Error} */ (error).message;
      return false;
    }
    await this.load();
    return true;
  }

  // --- This session ---------------------------------------------------------------------------

  async #switchMemory() {
    const isOn = this.switch.checked;
    try {
      await this.need.api.patch(`sessions/${this.session}/`, { memory_enabled: isOn });
      this.setMemory(isOn);
    } catch (error) {
      this.setMemory(!isOn);
      this.need.onNotice(`Memory was not switched: ${/** @type {Error} */ (error).message}`);
    }
  }

  async #clear() {
    const path = `sessions/${this.session}/clear-memory/`;
    try {
      const { preferences } = await this.need.api.get(path);
      const ticked = await confirm({
        title: "Clear memory?",
        text:
          "The model will no longer be sent anything from before now. The conversation stays and shows " +
          "where it was cleared." +
          (preferences.length ? " Preferences stay too, unless you tick those that came from here:" : ""),
        action: "Clear memory",
        choices: preferences.map((/** @type {import("./types.js").Preference} */ each) => ({
          value: String(each.id),
          label: `${each.key}: ${each.text}`,
        })),
      });
      if (!ticked) return;
      await this.need.api.post(path, { delete_preferences: ticked.map(Number) });
      this.need.onNotice("Memory was cleared.", "plain");
      await this.load();
    } catch (error) {
      this.need.onNotice(`Memory was not cleared: ${/** @type {Error} */ (error).message}`);
    }
  }
}
