/** The running turn of a conversation: from `turn.accepted` over its text to its end. */

import { AnswerView } from "./answer-view.js";
import { toolWords } from "./tools.js";
import { spokenEnd } from "./turn-notes.js";

/**
 * @typedef {object} FollowerDependencies
 * @property {import("./message-list.js").MessageList} list
 * @property {HTMLElement} container
 * @property {import("./reading-position.js").ReadingPosition} position
 * @property {import("./announcer.js").Announcer} announcer
 * @property {(turn: string) => void} askSync
 * @property {() => void} reload something was missed: read the conversation again
 * @property {(isRunning: boolean, isStopping: boolean) => void} onRunning
 */

export class TurnFollower {
  /** @param {FollowerDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    /** @type {AnswerView | null} */
    this.answer = null;
    this.isStopping = false;
    /** @type {{turn: string, seen: number | null} | null} to stop, and not yet ended */
    this.wish = null;
    /** @type {Set<string>} */
    this.ended = new Set();
    this.reloadedFor = "";
  }

  get turn() {
    return this.answer?.turn ?? null;
  }

  /**
   * A turn runs: show that, and what is stored of it.
   * @param {string} turn @param {import("./types.js").Message[]} [stored] the answer's rows
   */
  begin(turn, stored = []) {
    if (this.turn === turn) {
      this.answer?.noteTools(stored);
      return;
    }
    this.#forget();
    this.answer = new AnswerView(turn, (write) => {
      write();
      this.need.position.follow();
    });
    this.answer.showStored(stored);
    this.need.container.append(this.answer.element);
    this.#setRunning(true);
    this.need.announcer.begin();
    this.need.position.follow();
  }

  /** The page was read again. @param {import("./types.js").Message[]} messages */
  adopt(messages) {
    for (const message of messages) {
      const turn = message.turn;
      if (turn && turn.status !== "running") this.ended.add(turn.id);
    }
    const last = messages.at(-1);
    if (last?.turn?.status === "running") {
      const { id } = last.turn;
      this.begin(id, messages.filter((row) => row.turn?.id === id && row.role !== "user"));
    } else if (this.answer) {
      this.#forget();
      this.#setRunning(false);
    }
  }

  /** @param {import("./types.js").Frame} frame */
  onAccepted(frame) {
    if (this.ended.has(frame.turn) || this.turn === frame.turn) return;
    const { list } = this.need;
    const turn = runningTurn(frame);
    const known = list.find(frame.message.id);
    if (known) {
      this.#forget();
      list.dropAfter(known.seq);
      known.put({ ...known.message, turn });
    } else if (list.hasAfter || !this.#hasParent(frame.message.parent)) {
      this.need.reload();
      return;
    } else {
      list.dropAfter(list.find(frame.message.parent)?.seq ?? 0); // what it was written instead of
      const created_at = frame.message.created_at ?? new Date().toISOString();
      const token_count = frame.message.token_count ?? null;
      list.upsert([{ ...frame.message, role: "user", is_partial: false, created_at, token_count, turn }]);
    }
    this.begin(frame.turn);
  }

  /** `turn.snapshot`, `turn.delta`, `turn.html`. @param {import("./types.js").Frame} frame */
  onText(frame) {
    if (this.ended.has(frame.turn)) return;
    if (!this.answer || this.answer.turn !== frame.turn) {
      this.#missed(frame.turn);
      return;
    }
    const isWhole = this.answer.apply(frame);
    if (frame.type === "turn.delta") this.need.announcer.hear(frame.text);
    if (!isWhole) this.need.askSync(frame.turn);
  }

  /** `turn.tool` @param {import("./types.js").Frame} frame */
  onTool(frame) {
    if (this.ended.has(frame.turn)) return;
    if (!this.answer || this.answer.turn !== frame.turn) {
      this.#missed(frame.turn);
      return;
    }
    this.answer.onTool(frame);
    const how = frame.status === "failed" ? " failed" : "";
    this.need.announcer.say(`${toolWords(frame.name, frame.status === "done")}${how}.`);
  }

  /** Whether what a new message follows is on the page. @param {string | null} parent */
  #hasParent(parent) {
    const { list } = this.need;
    return parent === null ? !list.hasBefore : Boolean(list.find(parent));
  }

  /** @param {import("./types.js").Frame} frame */
  onEnded(frame) {
    const { list } = this.need;
    this.ended.add(frame.turn);
    const isMine = this.turn === frame.turn;
    const answer = isMine ? this.answer : null;
    const input = list.find(frame.summary.input);
    if (!input && !list.hasAfter) this.need.reload();
    if (isMine) {
      this.answer = null;
      this.isStopping = false;
      this.wish = null;
      list.isRunning = false;
      this.need.announcer.end(spokenEnd(frame.summary.status, frame.error));
    }
    input?.put({ ...input.message, turn: frame.summary });
    const rows = [...(frame.steps ?? []), ...(frame.message ? [frame.message] : [])];
    if (rows.length && input) list.upsert(rows, answer);
    answer?.dispose();
    answer?.element.remove();
    list.refresh();
    this.need.position.follow();
    if (isMine) this.need.onRunning(false, false);
    if (!frame.message && frame.summary.answers > 1) this.need.reload(); // an earlier answer is hidden
  }

  /** @returns {{turn: string, seen: number | null} | null} what to tell the server */
  stop() {
    if (!this.answer || this.isStopping) return null;
    this.answer.freeze();
    this.isStopping = true;
    this.need.onRunning(true, true);
    this.wish = { turn: this.answer.turn, seen: this.answer.painted };
    return this.wish;
  }

  dispose() {
    this.#forget();
  }

  /** @param {string} turn */
  #missed(turn) {
    if (this.reloadedFor === turn) return;
    this.reloadedFor = turn;
    this.need.reload();
  }

  #forget() {
    this.answer?.dispose();
    this.answer?.element.remove();
    this.answer = null;
    this.isStopping = false;
    this.wish = null;
  }

  /** @param {boolean} isRunning */
  #setRunning(isRunning) {
    this.need.list.isRunning = isRunning;
    this.need.list.refresh();
    this.need.onRunning(isRunning, false);
  }
}

/** @param {import("./types.js").Frame} frame @returns {import("./types.js").Turn} */
function runningTurn(frame) {
  return {
    id: frame.turn,
    input: frame.message.id,
    number: frame.number,
    status: "running",
    finish_reason: "",
    error: null,
    model: "",
    ms: null,
    usage: { input: null, cached_input: null, output: null },
    answers: 1,
  };
}
