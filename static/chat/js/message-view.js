/**
 * One message on the page: what a person said, or the answer of a turn with the tools that it used,
 * which is several rows. Its HTML is the server's; everything else is text.
 */

import { imageRow } from "./attached-images.js";
import { addCopyButtons, copyFrom } from "./code-blocks.js";
import { button, element, serverHtml, textButton } from "./dom.js";
import { duration, counted, fullTime, time } from "./format.js";
import { ToolChips, callsOf, statesOf, textOf, toolGroup } from "./tools.js";
import { turnNote } from "./turn-notes.js";
import { focusVersions, versionChooser } from "./versions.js";

const FOLD_CHARS = 2_500;
const FOLD_LINES = 30;
const SPEAKERS = { user: "You", assistant: "Assistant", system: "System", tool: "Tool" };

/**
 * @typedef {object} MessageActions
 * @property {(turn: string) => void} onRetry
 * @property {(turn: string) => void} onRegenerate
 * @property {(turn: string) => void} onContinue the last answer was cut
 * @property {(turn: string) => void} onShowContext
 * @property {(view: MessageView) => void} onEdit
 * @property {(message: string, view: MessageView) => void} onChoose another version, by its id
 * @property {(message: import("./types.js").Message) => void} onDelete a person's message with its answer
 * @property {(turn: import("./types.js").Turn, value: 1 | -1) => void} onRate
 */

export class MessageView {
  /**
   * @param {import("./types.js").Message[]} rows one, or those of an answer in their order
   * @param {MessageActions} actions
   * @param {import("./answer-view.js").AnswerView | null} [answer] which showed it while it came in
   */
  constructor(rows, actions, answer = null) {
    this.actions = actions;
    this.rows = rows;
    this.isLast = false;
    this.canRerun = true;
    this.isRemovable = false;
    this.isAnswered = true;
    this.shown = "";
    /** @type {import("./message-editor.js").MessageEditor | null} */
    this.editor = null;
    this.tools = answer?.tools ?? new ToolChips();
    this.body = this.#adopted(answer) ?? element("div", { class: "body" });
    this.note = element("div");
    this.extras = element("div", { class: "extras" });
    this.meta = element("div", { class: "meta" });
    this.element = element(
      "article",
      { class: `message message-${this.isAnswer ? "assistant" : this.message.role}` },
      element("h2", { class: "sr-only", text: SPEAKERS[this.isAnswer ? "assistant" : this.message.role] }),
      imageRow(this.message.attachments),
      this.body,
      this.note,
      this.extras,
      this.meta,
    );
    this.#draw();
  }

  /** The row that speaks for all: the answer's last text. */
  get message() {
    const last = /** @type {import("./types.js").Message} */ (this.rows.at(-1));
    return this.rows.findLast((row) => row.role === "assistant") ?? last;
  }

  get isAnswer() {
    return this.message.role === "assistant" || this.message.role === "tool";
  }

  /** Whether this person may write it anew at this moment. */
  get isEditable() {
    const { role, is_redacted: isRedacted } = this.message;
    return role === "user" && this.isRemovable && this.canRerun && !isRedacted;
  }

  /** Of the newest row. */
  get id() {
    return /** @type {import("./types.js").Message} */ (this.rows.at(-1)).id;
  }

  get seq() {
    return /** @type {import("./types.js").Message} */ (this.rows.at(-1)).seq;
  }

  get firstSeq() {
    return this.rows[0].seq;
  }

  get text() {
    return this.isAnswer ? textOf(this.rows) : (this.message.content ?? "");
  }

  /** Whether a row belongs to the same answer. @param {import("./types.js").Message} row */
  takes(row) {
    if (!this.isAnswer || (row.role !== "assistant" && row.role !== "tool")) return false;
    const turn = this.message.turn?.id;
    if (turn || row.turn) return turn === row.turn?.id;
    const isTool = row.role === "tool" || this.rows.some((each) => each.role === "tool");
    return isTool && (row.parent === this.id || this.rows[0].parent === row.id);
  }

  /** A new row, or one that changed. @param {import("./types.js").Message} row */
  put(row) {
    const others = this.rows.filter((each) => each.id !== row.id);
    this.rows = [...others, row].sort((a, b) => a.seq - b.seq);
    this.#draw();
  }

  /** @param {(row: import("./types.js").Message) => boolean} isKept */
  keep(isKept) {
    const kept = this.rows.filter(isKept);
    if (kept.length === this.rows.length) return;
    this.rows = kept;
    if (kept.length) this.#draw();
  }

  /** The message gives its place to an editor, and takes it back for null. @param {import("./message-editor.js").MessageEditor | null} editor */
  showEditor(editor) {
    this.editor?.element.remove();
    this.editor = editor;
    this.element.toggleAttribute("data-editing", Boolean(editor));
    if (editor) this.body.after(editor.element);
  }

  focusEdit() {
    /** @type {HTMLElement | null} */ (this.meta.querySelector(".edit"))?.focus();
  }

  #draw() {
    this.element.dataset.seq = String(this.message.seq);
    delete this.element.dataset.pending;
    this.#show();
    this.#drawNote();
    this.#drawMeta();
  }

  /**
   * @param {boolean} isLast
   * @param {boolean} isAnswered an answer follows
   * @param {boolean} canRerun no turn runs, and it is not before the forget line
   * @param {boolean} isRemovable no turn runs
   */
  setPlace(isLast, isAnswered, canRerun, isRemovable) {
    const isSame = isLast === this.isLast && isAnswered === this.isAnswered;
    if (isSame && canRerun === this.canRerun && isRemovable === this.isRemovable) return;
    this.isRemovable = isRemovable;
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
   */
  #adopted(answer) {
    const { html } = this.message;
    if (!answer || this.rows.length > 1 || answer.places.length) return null;
    if (!html.startsWith(answer.stream.html)) return null;
    const body = answer.takeBody();
    const nodes = serverHtml(html.slice(answer.stream.html.length));
    addCopyButtons(nodes);
    body.append(nodes);
    this.shown = html;
    return body;
  }

  #show() {
    const states = statesOf(this.rows);
    states.forEach((state, call) => this.tools.note(call, state));
    const shown = this.rows.map((row) => row.html + callsOf(row).map((call) => call.id)).join("\n");
    if (shown === this.shown) return;
    this.shown = shown;
    this.body.replaceChildren(...this.rows.flatMap((row) => this.#rowNodes(row, states)));
    this.body.hidden = !this.text && Boolean(this.message.attachments?.length);
    this.#fold();
  }

  /** @param {import("./types.js").Message} row @param {Map<string, import("./tools.js").ToolState>} states */
  #rowNodes(row, states) {
    if (row.role === "tool") {
      // Its chip stands where it was called; one whose call is not loaded stands here.
      const isAsked = this.rows.some((each) => callsOf(each).some((call) => call.id === row.tool_call_id));
      return isAsked || !row.tool_call_id ? [] : [this.#chips([row.tool_call_id], states)];
    }
    const nodes = serverHtml(row.html);
    addCopyButtons(nodes);
    const calls = callsOf(row).map((call) => call.id);
    return calls.length ? [nodes, this.#chips(calls, states)] : [nodes];
  }

  /** @param {string[]} calls @param {Map<string, import("./tools.js").ToolState>} states */
  #chips(calls, states) {
    const group = toolGroup();
    for (const call of calls) {
      group.append(this.tools.note(call, /** @type {import("./tools.js").ToolState} */ (states.get(call))));
    }
    return group;
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
    const { isAnswer } = this;
    const isUnanswered = this.message.role === "user" && !this.isAnswered;
    const note = turn && (isAnswer || isUnanswered) ? turnNote(turn, isAnswer ? this.text : null) : null;
    const made = element("div");
    if (turn && note) {
      made.className = "note";
      made.dataset.tone = note.tone;
      made.append(element("span", { text: note.text }));
      if (note.canContinue && this.isLast && this.canRerun) {
        made.append(button("Continue", () => this.actions.onContinue(turn.id)));
      }
      if (note.canRetry && this.isLast && this.canRerun) {
        made.append(button("Try again", () => this.actions.onRetry(turn.id)));
      }
    }
    const earlier = this.isLast && this.canRerun ? this.message.continuations?.at(-1) : null;
    if (earlier) {
      made.classList.add("note");
      made.append(button("Show the earlier answer", () => this.actions.onChoose(earlier, this)));
    }
    this.note.replaceWith(made);
    this.note = made;
  }

  #drawMeta() {
    const facts = element("span", { class: "facts" }, ...this.#facts());
    const copy = textButton("copy", "Copy", () => copyFrom(copy, () => this.text));
    const focused = this.meta.contains(document.activeElement) ? document.activeElement : null;
    const hadFocus = this.meta.querySelector(".versions")?.contains(focused);
    const versions = versionChooser(this.rows[0], this.isRemovable, (id) => this.actions.onChoose(id, this));
    const others = [facts, copy, ...this.#turnButtons()];
    // On the side where the message stands, since it is always drawn and the others are not.
    this.meta.replaceChildren(...(this.isAnswer ? [versions ?? "", ...others] : [...others, versions ?? ""]));
    if (hadFocus) focusVersions(this.element);
    else if (focused) this.#focusButton(focused.textContent);
  }

  /** The one that has taken the place of another. @param {string | null} label */
  #focusButton(label) {
    const buttons = [...this.meta.querySelectorAll("button")];
    buttons.find((each) => each.textContent === label)?.focus({ preventScroll: true });
  }

  #facts() {
    const { turn, created_at: at } = this.message;
    const tokens = this.#tokens;
    const parts = [];
    if (this.isAnswer && turn) {
      if (turn.model) parts.push(turn.model);
      if (tokens !== null) parts.push(counted(tokens, "token"));
      if (turn.ms !== null) parts.push(duration(turn.ms));
    } else if (tokens) parts.push(counted(tokens, "token"));
    const when = element("time", { datetime: at, title: fullTime(at), text: time(at) });
    return [when, parts.length ? ` · ${parts.join(" · ")}` : ""];
  }

  #deleteButton() {
    const remove = textButton("trash", "Delete", () => this.actions.onDelete(this.message));
    remove.title = "Delete this message and its answer";
    remove.append(element("span", { class: "sr-only", text: " this message and its answer" }));
    return remove;
  }

  /**
   * A thumb, pressed when that is the rating; pressing it again takes the rating back.
   * @param {import("./types.js").Turn} turn @param {1 | -1} value
   */
  #rateButton(turn, value) {
    const [name, label] = value > 0 ? ["up", "Good answer"] : ["down-thumb", "Bad answer"];
    const rate = textButton(name, label, () => this.actions.onRate(turn, value));
    rate.classList.add("rate");
    rate.title = label;
    rate.setAttribute("aria-pressed", String(turn.feedback === value));
    return rate;
  }

  #editButton() {
    const made = textButton("edit", "Edit", () => this.actions.onEdit(this));
    made.classList.add("edit");
    return made;
  }

  get #tokens() {
    const counts = this.rows.filter((row) => row.role !== "tool").map((row) => row.token_count);
    return counts.reduce((sum, count) => (count === null ? sum : (sum ?? 0) + count), null);
  }

  #turnButtons() {
    const { turn } = this.message;
    if (this.message.role === "user" && this.isRemovable) {
      return [...(this.isEditable ? [this.#editButton()] : []), this.#deleteButton()];
    }
    if (!this.isAnswer || !turn) return [];
    const buttons = [textButton("list", "What was sent", () => this.actions.onShowContext(turn.id))];
    if (this.isLast && this.canRerun && turn.status === "completed") {
      buttons.push(textButton("again", "Regenerate", () => this.actions.onRegenerate(turn.id)));
    }
    if (turn.status !== "running") buttons.push(this.#rateButton(turn, 1), this.#rateButton(turn, -1));
    return buttons;
  }
}
