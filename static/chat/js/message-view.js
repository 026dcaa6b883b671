/** One message on the page. Its HTML is the server's; everything else is text. */

import { imageRow } from "./attached-images.js";
import { addCopyButtons, copyFrom } from "./code-blocks.js";
import { button, element, serverHtml, textButton } from "./dom.js";
import { duration, counted, fullTime, number, time } from "./format.js";
import { turnNote } from "./turn-notes.js";

const FOLD_CHARS = 2_500;
const FOLD_LINES = 30;
const SPEAKERS = { user: "You", assistant: "Assistant", system: "System", tool: "Tool" };

/**
 * @typedef {object} MessageActions
 * @property {(turn: string) => void} onRetry
 * @property {(turn: string) => void} onRegenerate
 * @property {(turn: string) => void} onShowContext
 */

export class MessageView {
  /**
   * @param {import("./types.js").Message} message
   * @param {MessageActions} actions
   * @param {import("./answer-view.js").AnswerView | null} [answer] which showed it while it came in
   */
  constructor(message, actions, answer = null) {
    this.actions = actions;
    this.message = message;
    this.isLast = false;
    this.canRerun = true;
    this.isAnswered = true;
    this.html = "";
    this.body = this.#adopted(answer, message.html) ?? element("div", { class: "body" });
    this.note = element("div");
    this.meta = element("div", { class: "meta" });
    this.element = element(
      "article",
      { class: `message message-${message.role}` },
      element("h2", { class: "sr-only", text: SPEAKERS[message.role] }),
      imageRow(message.attachments),
      this.body,
      this.note,
      this.meta,
    );
    this.update(message);
  }

  get id() {
    return this.message.id;
  }

  get seq() {
    return this.message.seq;
  }

  /** @param {import("./types.js").Message} message */
  update(message) {
    this.message = message;
    this.element.dataset.seq = String(message.seq);
    delete this.element.dataset.pending;
    if (message.html !== this.html) this.#show(message.html);
    this.#drawNote();
    this.#drawMeta();
  }

  /**
   * @param {boolean} isLast
   * @param {boolean} isAnswered an answer follows
   * @param {boolean} canRerun no turn runs, and it is not before the forget line
   */
  setPlace(isLast, isAnswered, canRerun) {
    const isSame = isLast === this.isLast && isAnswered === this.isAnswered;
    if (isSame && canRerun === this.canRerun) return;
    this.isLast = isLast;
    this.isAnswered = isAnswered;
    this.canRerun = canRerun;
    this.element.toggleAttribute("data-last", isLast);
    this.#drawNote();
    this.#drawMeta();
  }

  /**
   * What was streamed stays as far as it is the same: nothing flickers, a selection stands.
   * @param {import("./answer-view.js").AnswerView | null} answer
   * @param {string} html
   */
  #adopted(answer, html) {
    if (!answer || !html.startsWith(answer.stream.html)) return null;
    const body = answer.takeBody();
    const nodes = serverHtml(html.slice(answer.stream.html.length));
    addCopyButtons(nodes);
    body.append(nodes);
    this.html = html;
    return body;
  }

  /** @param {string} html */
  #show(html) {
    this.html = html;
    const nodes = serverHtml(html);
    addCopyButtons(nodes);
    this.body.replaceChildren(nodes);
    this.body.hidden = !this.message.content && Boolean(this.message.attachments?.length);
    this.#fold();
  }

  /** A long paste does not push the answer out of sight. */
  #fold() {
    const text = this.message.content ?? "";
    const lines = text.split("\n", FOLD_LINES + 1).length;
    const isLong = text.length > FOLD_CHARS || lines > FOLD_LINES;
    this.unfold?.remove();
    this.body.toggleAttribute("data-folded", this.message.role === "user" && isLong);
    if (this.message.role !== "user" || !isLong) return;
    this.unfold = button("Show all of it", () => {
      this.body.removeAttribute("data-folded");
      this.unfold.remove();
    });
    this.body.after(this.unfold);
  }

  #drawNote() {
    const turn = this.message.turn;
    const isAnswer = this.message.role === "assistant";
    const isUnanswered = this.message.role === "user" && !this.isAnswered;
    const note = turn && (isAnswer || isUnanswered) ? turnNote(turn, this.message) : null;
    const made = element("div");
    if (turn && note) {
      made.className = "note";
      made.dataset.tone = note.tone;
      made.append(element("span", { text: note.text }));
      if (note.canRetry && this.isLast && this.canRerun) {
        made.append(button("Try again", () => this.actions.onRetry(turn.id)));
      }
    }
    this.note.replaceWith(made);
    this.note = made;
  }

  #drawMeta() {
    const { message } = this;
    const facts = element("span", { class: "facts" }, ...this.#facts());
    const copy = textButton("copy", "Copy", () => copyFrom(copy, () => message.content ?? ""));
    this.meta.replaceChildren(facts, copy, ...this.#turnButtons());
  }

  #facts() {
    const { turn, token_count: tokens, created_at: at, role } = this.message;
    const parts = [];
    if (role === "assistant" && turn) {
      if (turn.model) parts.push(turn.model);
      if (tokens !== null) parts.push(counted(tokens, "token"));
      if (turn.ms !== null) parts.push(duration(turn.ms));
      if (turn.answers > 1) parts.push(`${number(turn.answers)} answers so far`);
    } else if (tokens) parts.push(counted(tokens, "token"));
    const when = element("time", { datetime: at, title: fullTime(at), text: time(at) });
    return [when, parts.length ? ` · ${parts.join(" · ")}` : ""];
  }

  #turnButtons() {
    const { turn, role } = this.message;
    if (role !== "assistant" || !turn) return [];
    const buttons = [textButton("list", "What was sent", () => this.actions.onShowContext(turn.id))];
    if (this.isLast && this.canRerun && turn.status === "completed") {
      buttons.push(textButton("again", "Regenerate", () => this.actions.onRegenerate(turn.id)));
    }
    return buttons;
  }
}
