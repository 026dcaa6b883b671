/** The panel "Memory": this session's switch, what is remembered of the person, deleting it. */

import { DigestView } from "./digest-view.js";
import { confirm, confirmByName } from "./dialogs.js";
import { byId, element, textButton } from "./dom.js";
import { endOfDay, fieldDay } from "./format.js";
import { EDITED, preferenceRow, proposalNode } from "./preference-view.js";
import { receiptList, showReceipt } from "./receipts.js";

/**
 * @typedef {object} MemoryDependencies
 * @property {import("./api.js").Api} api
 * @property {import("./preference-store.js").PreferenceStore} store
 * @property {boolean} isAvailable false: switched off for the whole installation
 * @property {string} username
 * @property {(text: string, tone?: string) => void} onNotice
 * @property {(session: string, seq: number | null) => void} onOpen
 */

export class MemoryPanel {
  /** @param {MemoryDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    this.switch = byId("memory-switch");
    this.clear = byId("clear-memory");
    this.status = byId("memory-status");
    this.digest = new DigestView(dependencies.api, (text) => this.#say(text));
    /** @type {string | null} */
    this.session = null;
    this.isOn = true;
    this.switching = Promise.resolve();
    /** @type {Map<number, {says: string, row: HTMLElement}>} */
    this.rows = new Map();
    dependencies.store.onChange(() => this.#draw());
    this.#listen();
  }

  /** What can be done with a preference, wherever it is shown. */
  get actions() {
    const { store, onOpen } = this.need;
    return {
      onChange: (/** @type {number} */ id, /** @type {object} */ changes) => store.change(id, changes),
      onDelete: (/** @type {number} */ id) => this.#forgotten(id),
      onAnswer: (/** @type {number} */ id, /** @type {boolean} */ keep) => store.answer(id, keep),
      onOpen,
      onProblem: (/** @type {string} */ why) => this.#problem(why),
    };
  }

  /** @param {string | null} session */
  setSession(session) {
    this.session = session;
    this.switch.disabled = !session || !this.need.isAvailable;
    this.clear.disabled = !session;
    this.setMemory(this.need.isAvailable);
    this.#say("");
  }

  /** @param {boolean} isOn */
  setMemory(isOn) {
    this.isOn = isOn;
    this.switch.checked = isOn;
    byId("memory-pill").hidden = isOn || !this.session;
    byId("memory-hint").textContent = this.#hint();
  }

  /** Everything again, since it is looked at. */
  async load() {
    const { api, store } = this.need;
    try {
      const [memory] = await Promise.all([api.get("memory/"), store.load()]);
      this.digest.show(memory.digest);
    } catch (error) {
      this.#problem(`What is remembered could not be read: ${/** @type {Error} */ (error).message}`);
    }
    if (byId("receipts-box").open) await this.#loadReceipts();
  }

  #hint() {
    if (!this.need.isAvailable) return "Memory is switched off for this whole installation.";
    if (this.isOn) return "The model is sent the newest messages of this conversation with each new one.";
    return "Every message is sent alone: neither earlier messages nor preferences go with it.";
  }

  #listen() {
    this.switch.addEventListener("change", () => this.#switchMemory());
    this.clear.addEventListener("click", () => this.#clear());
    byId("erase-everything").addEventListener("click", () => this.#eraseEverything());
    byId("receipts-box").addEventListener("toggle", () => byId("receipts-box").open && this.#loadReceipts());
    byId("preferences").addEventListener(EDITED, () => this.#draw());
    byId("preference-until").min = fieldDay(new Date().toISOString());
    byId("preference-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#add();
    });
  }

  /** @param {string} text @param {HTMLElement} [action] */
  #say(text, action) {
    this.status.replaceChildren(text, ...(action ? [" ", action] : []));
    byId("preference-error").textContent = "";
  }

  /** @param {string} why */
  #problem(why) {
    byId("preference-error").textContent = why;
    if (byId("details").hidden) this.need.onNotice(why);
  }

  // --- Preferences ----------------------------------------------------------------------------

  /** A row stays as it is while someone writes in it, and while it says the same. */
  #draw() {
    const { proposed, kept } = this.need.store;
    byId("proposals-section").hidden = !proposed.length;
    byId("proposals").replaceChildren(...proposed.map((each) => proposalNode(each, this.actions)));
    const list = byId("preferences");
    const before = document.activeElement?.closest(".preference");
    const focused = list.contains(before) ? /** @type {HTMLElement} */ (before).dataset.id : "";
    const rows = kept.map((each) => this.#row(each));
    list.replaceChildren(...(rows.length ? rows : [element("li", { class: "quiet", text: "Nothing yet." })]));
    if (!focused || list.contains(document.activeElement)) return;
    const row = rows.find((each) => each.dataset.id === focused);
    (row?.querySelector("textarea, .preference-tools button") ?? byId("preference-key")).focus();
  }

  /** @param {import("./types.js").Preference} preference @returns {HTMLElement} */
  #row(preference) {
    const { id, key, text, status, scope, expires_at: until, last_used_at: used } = preference;
    const says = JSON.stringify([key, text, status, scope, until, used]);
    const known = this.rows.get(id);
    if (known && (known.says === says || known.row.querySelector("textarea"))) return known.row;
    const row = preferenceRow(preference, this.actions);
    row.dataset.id = String(id);
    this.rows.set(id, { says, row });
    return row;
  }

  /** The form is empty at once, for the next one; what could not be kept comes back. */
  async #add() {
    const fields = ["key", "text", "until"].map((name) => byId(`preference-${name}`));
    const [key, text, until] = fields.map((field) => field.value);
    const fill = (/** @type {string[]} */ values) => fields.forEach((field, index) => (field.value = values[index]));
    this.#say("");
    fill(["", "", ""]);
    try {
      await this.need.store.add({ key, text, expires_at: endOfDay(until) });
    } catch (error) {
      const why = /** @type {Error} */ (error).message;
      const isNext = fields.some((field) => field.value);
      if (!isNext) fill([key, text, until]);
      this.#problem(isNext ? `“${text}” is not remembered: ${why}` : why);
    }
  }

  /**
   * `/remember key: text`
   * @param {string} key @param {string} text @returns {Promise<string>} why not, or nothing
   */
  async remember(key, text) {
    const session = this.session && this.isOn ? { session: this.session } : {};
    await this.need.store.add({ key, text, ...session });
    const where = this.isOn
      ? "It is sent along from your next message on."
      : "It is sent along in other conversations; memory is off in this one.";
    this.need.onNotice(`Remembered: ${key}. ${where}`, "plain");
    return "";
  }

  /**
   * `/forget words`
   * @param {string} words @returns {Promise<string>} why not, or nothing
   */
  async forget(words) {
    const { store, onNotice } = this.need;
    await store.load();
    const found = store.matching(words);
    if (!found.length) return `Nothing that is remembered has the words “${words}”.`;
    const ticked = await confirm({
      title: "Forget which of these?",
      text: "Tick what is to be deleted for good.",
      action: "Forget",
      choices: found.map((each) => ({ value: String(each.id), label: `${each.key}: ${each.text}` })),
    });
    for (const id of ticked ?? []) await store.delete(Number(id));
    if (ticked?.length) onNotice(`Forgotten: ${ticked.length} of ${found.length}.`, "plain");
    return "";
  }

  /** @param {number} id */
  async #forgotten(id) {
    const receipt = await this.need.store.delete(id);
    this.#say("Forgotten.", textButton(null, "What was removed", () => showReceipt(receipt)));
  }

  // --- Everything -----------------------------------------------------------------------------

  async #eraseEverything() {
    const { api, username } = this.need;
    const order = await confirmByName(username);
    if (!order) return;
    try {
      const { receipt } = await api.post("memory/forget-everything/", { confirm: username, ...order });
      await this.load();
      await showReceipt(receipt);
      if (order.conversations) location.assign("/"); // nothing that is on the page exists any more
    } catch (error) {
      this.#say(`It was not deleted: ${/** @type {Error} */ (error).message}`);
    }
  }

  async #loadReceipts() {
    const list = byId("receipts");
    try {
      const { results } = await this.need.api.get("receipts/");
      const show = async (/** @type {string} */ id) => showReceipt(await this.need.api.get(`receipts/${id}/`));
      const none = element("li", { class: "quiet", text: "Nothing yet." });
      list.replaceChildren(...(results.length ? receiptList(results, show) : [none]));
    } catch (error) {
      const why = `They could not be read: ${/** @type {Error} */ (error).message}`;
      list.replaceChildren(element("li", { class: "quiet", text: why }));
    }
  }

  // --- This session ---------------------------------------------------------------------------

  /** Two orders are given one after the other, or the first could be the last to arrive. */
  #switchMemory() {
    const { session } = this;
    const isOn = this.switch.checked;
    this.switching = this.switching.then(() => this.#orderMemory(session, isOn));
  }

  /** @param {string | null} session @param {boolean} isOn */
  async #orderMemory(session, isOn) {
    const isMeant = () => session === this.session && isOn === this.switch.checked;
    try {
      await this.need.api.patch(`sessions/${session}/`, { memory_enabled: isOn });
      if (isMeant()) this.setMemory(isOn);
    } catch (error) {
      if (isMeant()) this.setMemory(!isOn);
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
      await this.need.store.load();
    } catch (error) {
      this.need.onNotice(`Memory was not cleared: ${/** @type {Error} */ (error).message}`);
    }
  }
}
