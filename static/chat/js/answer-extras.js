/** What stands under an answer: what of memory was used in it, and what it gave to remember. */

import { element, textButton } from "./dom.js";
import { counted } from "./format.js";
import { attempt, preferenceRow, proposalNode } from "./preference-view.js";

/**
 * @typedef {object} ExtrasDependencies
 * @property {string} session
 * @property {import("./message-list.js").MessageList} list
 * @property {import("./preference-store.js").PreferenceStore} store
 * @property {import("./preference-view.js").PreferenceActions} actions
 * @property {import("./announcer.js").Announcer} announcer
 * @property {() => void} onDrawn
 */

export class AnswerExtras {
  /** @param {ExtrasDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    /** @type {Map<string, {id: number, key: string, text: string}[]>} */
    this.used = new Map(); // by turn
    /** @type {Set<number>} */
    this.saved = new Set();
    /** @type {Map<string, {says: string, node: HTMLElement}>} */
    this.nodes = new Map();
    this.stopListening = dependencies.store.onChange(() => this.draw());
  }

  dispose() {
    this.stopListening();
  }

  /** What of memory went with a request. @param {import("./types.js").ContextFrame} context */
  showUsed(context) {
    this.used.set(context.turn, /** @type {any} */ (context.preferences));
    this.draw();
  }

  /**
   * `preference.proposed`, `preference.saved`, `preference.forgotten`
   * @param {import("./types.js").Frame} frame
   */
  onFrame(frame) {
    const { store, session, announcer } = this.need;
    if (frame.type === "preference.forgotten") {
      store.drop(frame.id);
      return;
    }
    const { preference } = frame;
    const known = store.get(preference.id);
    if (frame.type === "preference.saved") this.saved.add(preference.id);
    store.apply({ ...preference, source: known?.source ?? { session, seq: null } });
    announcer.say(frame.type === "preference.saved" ? `Remembered: ${preference.text}` : `Remember this? ${preference.text}`);
    if (!known) this.#readAgain(); // the frame does not say in which message it was said
  }

  async #readAgain() {
    try {
      await this.need.store.load();
    } catch (error) {
      this.need.actions.onProblem(/** @type {Error} */ (error).message);
    }
  }

  /** Each in its place; what says the same stays as it is. */
  draw() {
    const answers = this.need.list.views.filter((view) => view.isAnswer);
    const cards = this.#cards();
    for (const view of answers) {
      const turn = view.message.turn?.id ?? "";
      const mine = cards.filter((card) => this.#standsUnder(card, view, answers));
      const nodes = [...mine.map((card) => this.#cardNode(card)), this.#usedNode(turn)];
      const shown = /** @type {HTMLElement[]} */ (nodes.filter((node) => node !== null));
      const isSame =
        shown.length === view.extras.childElementCount &&
        shown.every((node, index) => view.extras.children[index] === node);
      if (!isSame) view.extras.replaceChildren(...shown);
    }
    this.need.onDrawn();
  }

  #cards() {
    const { store, session } = this.need;
    const proposed = store.proposed.filter((each) => each.source?.session === session);
    const saved = [...this.saved].map((id) => store.get(id)).filter((each) => each?.status === "active");
    return [...proposed, .../** @type {import("./types.js").Preference[]} */ (saved)];
  }

  /**
   * @param {import("./types.js").Preference} card
   * @param {import("./message-view.js").MessageView} view
   * @param {import("./message-view.js").MessageView[]} answers
   */
  #standsUnder(card, view, answers) {
    const seq = card.source?.seq;
    return Boolean(seq) && answers.find((each) => each.seq > Number(seq)) === view;
  }

  /** @param {import("./types.js").Preference} card */
  #cardNode(card) {
    const says = JSON.stringify([card.text, card.status, card.quote]);
    return this.#cached(`card ${card.id}`, says, () =>
      card.status === "proposed" ? proposalNode(card, this.need.actions, "section") : this.#savedNode(card),
    );
  }

  /** @param {import("./types.js").Preference} card */
  #savedNode(card) {
    const { actions } = this.need;
    return element(
      "p",
      { class: "note" },
      element("span", {}, "Remembered: ", element("bdi", { text: card.text })),
      textButton(null, "Forget it", () => attempt(() => actions.onDelete(card.id), actions)),
    );
  }

  /** @param {string} turn */
  #usedNode(turn) {
    const used = this.used.get(turn);
    if (!used?.length) return null;
    const rows = used.map((each) => this.need.store.get(each.id) ?? each);
    const head = `Used in this answer: ${counted(used.length, "thing")} that ${used.length === 1 ? "is" : "are"} remembered`;
    return this.#cached(`used ${turn}`, JSON.stringify(rows), () =>
      element(
        "details",
        { class: "used-box" },
        element("summary", { text: head }),
        element("ul", {}, ...usedRows(used, this.need.store, this.need.actions)),
      ),
    );
  }

  /** @param {string} name @param {string} says @param {() => HTMLElement} make */
  #cached(name, says, make) {
    const known = this.nodes.get(name);
    if (known?.says === says) return known.node;
    const node = make();
    if (known?.node.hasAttribute("open")) node.setAttribute("open", "");
    this.nodes.set(name, { says, node });
    return node;
  }
}

/**
 * @param {{id: number | string, key: string, text?: string}[]} used
 * @param {import("./preference-store.js").PreferenceStore} store
 * @param {import("./preference-view.js").PreferenceActions} actions
 */
export function usedRows(used, store, actions) {
  return used.map((each) => {
    const known = store.get(Number(each.id));
    if (known) return preferenceRow(known, actions);
    return element(
      "li",
      { class: "preference" },
      element("p", { class: "preference-key" }, element("bdi", { text: each.key })),
      element("p", { class: "quiet", text: "It is not remembered any more." }),
    );
  });
}
