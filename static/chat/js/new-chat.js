/** Beginning a session: with which assistant, once, and without losing what is typed meanwhile. */

import { chooseAssistant } from "./dialogs.js";
import { byId, element } from "./dom.js";

/**
 * @typedef {object} NewChatDependencies
 * @property {import("./api.js").Api} api
 * @property {import("./types.js").PageData} data
 * @property {() => import("./conversation.js").Conversation | null} current
 * @property {() => void} onLeave the page of a session that is not there yet
 * @property {(session: import("./types.js").Session, keepsText: boolean) => Promise<void>} onCreated it is opened
 * @property {(session: import("./types.js").Session) => void} onLeft it is there, but another one was opened meanwhile
 * @property {(before: string | null, why: string) => Promise<void>} onFailed
 * @property {() => void} onChosen another assistant on the start page
 */

export class NewChat {
  /** @param {NewChatDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    /** @type {HTMLSelectElement} */
    this.select = byId("assistant-select");
    this.isTemporary = false;
    this.isNeeded = false; // for what is being sent, wherever the reader has gone meanwhile
    /** @type {Promise<void> | null} */
    this.creating = null;
    const options = dependencies.data.assistants.map((each) =>
      element("option", { value: each.slug, text: each.name }),
    );
    this.select.replaceChildren(...options);
    this.select.addEventListener("change", () => dependencies.onChosen());
  }

  /** The assistant that a session begun on the start page gets. */
  get assistant() {
    const { assistants } = this.need.data;
    return assistants.find((each) => each.slug === this.select.value) ?? assistants[0] ?? null;
  }

  /**
   * "New chat" was pressed: an empty session is not left for another one of the same kind.
   * @returns {Promise<boolean>} whether the page was left for a new session
   */
  async begin(isTemporary = false) {
    const { assistants, demo_assistants: demo } = this.need.data;
    const only = assistants.length > 1 ? null : (assistants[0]?.slug ?? "");
    const slug = only ?? (await chooseAssistant(assistants, demo));
    if (!slug) return false;
    const current = this.need.current();
    const isSame = current?.session?.assistant.slug === slug && current.session.is_temporary === isTemporary;
    if (current?.isEmpty && isSame) return false;
    this.isTemporary = isTemporary;
    this.select.value = slug;
    this.need.onLeave();
    try {
      await this.#createShared();
    } catch (error) {
      const why = `There is no new chat: ${/** @type {Error} */ (error).message}`;
      await this.need.onFailed(current?.id ?? null, why);
    }
    return true;
  }

  /** A session for what is to be sent; throws ApiError. */
  create() {
    this.isNeeded = true;
    return this.#createShared();
  }

  /** Ask once, however often it is wanted meanwhile. */
  #createShared() {
    this.creating ??= this.#createOnce().finally(() => {
      this.creating = null;
      this.isNeeded = false;
    });
    return this.creating;
  }

  async #createOnce() {
    const slug = this.assistant?.slug;
    const temporary = this.isTemporary ? { is_temporary: true } : {};
    this.isTemporary = false;
    const session = await this.need.api.post("sessions/", { ...(slug ? { assistant: slug } : {}), ...temporary });
    const isElsewhere = Boolean(this.need.current());
    if (isElsewhere && !this.isNeeded) this.need.onLeft(session);
    // What stands in the box was typed for this session, unless another one was opened meanwhile.
    else await this.need.onCreated(session, !isElsewhere);
  }
}
