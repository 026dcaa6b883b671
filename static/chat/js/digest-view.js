/** "What I know about you from earlier conversations": read, edited, switched off, deleted. */

import { confirm } from "./dialogs.js";
import { byId, element, textButton } from "./dom.js";
import { counted, fullTime, time } from "./format.js";
import { isComposing } from "./keys.js";
import { showReceipt } from "./receipts.js";

const PATH = "memory/digest/";

export class DigestView {
  /**
   * @param {import("./api.js").Api} api
   * @param {(text: string) => void} onStatus
   */
  constructor(api, onStatus) {
    this.api = api;
    this.onStatus = onStatus;
    this.box = byId("digest");
    /** @type {import("./types.js").Digest | null} */
    this.digest = null;
    this.isWriting = false;
  }

  /** What was read; who is writing in it goes on. @param {import("./types.js").Digest | null} digest */
  show(digest) {
    this.digest = digest;
    if (!this.isWriting) this.#draw();
  }

  #leave() {
    this.isWriting = false;
    this.#draw();
  }

  #draw() {
    const { digest } = this;
    byId("digest-section").hidden = !digest;
    this.box.replaceChildren(...(digest ? this.#nodes(digest) : []));
  }

  /** @param {import("./types.js").Digest} digest @returns {Node[]} */
  #nodes(digest) {
    const made = digest.origin === "model" ? `From ${counted(digest.sources, "conversation")}` : "Edited by hand";
    const toggle = element("input", { type: "checkbox", role: "switch" });
    toggle.checked = digest.is_enabled;
    toggle.addEventListener("change", () => this.#change({ is_enabled: toggle.checked }));
    const words = element("p", { class: "preference-words", dir: "auto", text: digest.text });
    words.toggleAttribute("data-disabled", !digest.is_enabled);
    return [
      element("label", { class: "switch" }, toggle, element("span", { text: "Begin new conversations with it" })),
      words,
      element(
        "p",
        { class: "preference-facts" },
        element("span", { text: made }),
        element("span", { text: time(digest.updated_at), title: fullTime(digest.updated_at) }),
      ),
      element(
        "p",
        { class: "preference-tools" },
        textButton(null, "Edit", () => this.#edit(digest)),
        textButton(null, "Delete", () => this.#delete()),
      ),
    ];
  }

  /** @param {import("./types.js").Digest} digest */
  #edit(digest) {
    const label = "What I know about you";
    const field = element("textarea", { class: "input", rows: 8, dir: "auto", "aria-label": label });
    field.value = digest.text;
    this.isWriting = true;
    field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Escape" || isComposing(event)) return;
      event.stopPropagation();
      this.#leave();
    });
    this.box.replaceChildren(
      field,
      element(
        "p",
        { class: "preference-tools" },
        textButton(null, "Save", () => this.#save(field)),
        textButton(null, "Cancel", () => this.#leave()),
      ),
    );
    field.focus();
  }

  /** @param {HTMLTextAreaElement} field what is written in it while it is saved stays there */
  async #save(field) {
    const text = field.value;
    const isSaved = await this.#change({ text });
    if (isSaved && field.isConnected && field.value === text) this.#leave();
  }

  /** @param {object} changes @returns {Promise<boolean>} whether it was changed */
  async #change(changes) {
    try {
      await this.api.patch(PATH, changes);
      this.show((await this.api.get("memory/")).digest);
      return true;
    } catch (error) {
      this.onStatus(`It was not changed: ${/** @type {Error} */ (error).message}`);
      return false;
    }
  }

  async #delete() {
    const answer = await confirm({
      title: "Delete what is known from earlier conversations?",
      text: "The text goes for good. It may be put together again from conversations that are still there.",
      action: "Delete",
    });
    if (!answer) return;
    try {
      const gone = await this.api.delete(PATH);
      this.isWriting = false;
      this.show(null);
      await showReceipt(gone?.receipt);
    } catch (error) {
      this.onStatus(`It was not deleted: ${/** @type {Error} */ (error).message}`);
    }
  }
}
