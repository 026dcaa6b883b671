/** The messages on the page: a window over a conversation that may be very long. */

import { element } from "./dom.js";
import { MessageView } from "./message-view.js";

const PAGE = 50;
const MOST = 250; // messages in the document; beyond, the far side goes and is loaded again on return
const AHEAD = 600; // px before the edge at which the next page is fetched

/**
 * @typedef {object} ListDependencies
 * @property {HTMLElement} container
 * @property {HTMLElement} scroller
 * @property {HTMLElement} olderNote
 * @property {HTMLElement} newerNote
 * @property {import("./reading-position.js").ReadingPosition} position
 * @property {(query: string) => Promise<import("./types.js").MessagePage>} fetchPage
 * @property {import("./message-view.js").MessageActions} actions
 */

export class MessageList {
  /** @param {ListDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    /** @type {MessageView[]} */
    this.views = [];
    this.hasBefore = false;
    this.hasAfter = false;
    this.forgetLine = 0;
    this.windowFrom = 0;
    this.summarisedThrough = 0;
    this.isRunning = false;
    this.isLoading = false;
    this.isDisposed = false;
    this.edition = 0; // a page that was asked for in an older one joins to nothing
    this.moves = 0;
    this.forgetMark = element("p", { class: "divider divider-forget" });
    this.forgetMark.textContent = "Memory was cleared here. Nothing above is sent to the model.";
    this.windowMark = element("p", { class: "divider" });
    this.summaryMark = element("p", { class: "divider" });
    this.summaryMark.textContent = "Summarised up to here.";
    this.onScroll = () => this.#loadMore();
    dependencies.scroller.addEventListener("scroll", this.onScroll, { passive: true });
    dependencies.container.replaceChildren();
  }

  get last() {
    return this.views.at(-1) ?? null;
  }

  /** @param {string} id */
  find(id) {
    return this.views.find((view) => view.rows.some((row) => row.id === id)) ?? null;
  }

  /** @param {number} seq */
  at(seq) {
    return this.views.find((view) => view.rows.some((row) => row.seq === seq)) ?? null;
  }

  /** @param {import("./types.js").MessagePage} page */
  reset(page) {
    this.edition += 1;
    this.views.forEach((view) => view.element.remove());
    this.views = [];
    page.results.forEach((message) => this.#put(message));
    this.hasBefore = page.has_before;
    this.hasAfter = page.has_after;
    this.refresh();
  }

  /** The newest page again: what is gone goes, what changed is drawn anew. */
  merge(/** @type {import("./types.js").MessagePage} */ page) {
    const isJoined = page.results.some((message) => this.find(message.id)) || !page.has_before;
    if (!isJoined || this.hasAfter) {
      this.reset(page);
      return;
    }
    const first = page.results[0]?.seq ?? 0;
    const kept = new Set(page.results.map((message) => message.id));
    this.views.forEach((view) => view.keep((row) => row.seq < first || kept.has(row.id)));
    this.#drop((view) => !view.rows.length || !page.results.length);
    page.results.forEach((message) => this.#putLaidOut(message));
    this.refresh();
  }

  /**
   * What somebody said, or the rows of an answer.
   * @param {import("./types.js").Message[]} rows
   * @param {import("./answer-view.js").AnswerView | null} [answer] that showed them so far
   */
  upsert(rows, answer = null) {
    const isKnown = rows.some((row) => this.find(row.id));
    if (answer && !isKnown && !this.hasAfter) {
      this.#insert(laidOut(new MessageView(rows, this.need.actions, answer)), answer);
    } else if (isKnown || !this.hasAfter) rows.forEach((row) => this.#putLaidOut(row));
    this.refresh();
  }

  /** What a person said goes, with what answered it. @param {string} id */
  dropPair(id) {
    const from = this.views.findIndex((view) => view.id === id);
    if (from < 0) return;
    const next = this.views.findIndex((view, index) => index > from && !view.isAnswer);
    const gone = new Set(this.views.slice(from, next < 0 ? undefined : next));
    this.need.position.hold(() => this.#inSight(gone), () => this.#drop((view) => gone.has(view)));
    this.refresh();
  }

  /** What this person thinks of an answer. @param {string} turn @param {1 | -1 | null} feedback */
  rate(turn, feedback) {
    for (const view of this.views) {
      const row = view.message;
      if (row.turn?.id === turn) view.put({ ...row, turn: { ...row.turn, feedback } });
    }
  }

  /** Messages after one leave the branch: its answer is written anew. @param {number} seq */
  dropAfter(seq) {
    this.#drop((view) => view.seq > seq);
    this.refresh();
  }

  /**
   * Another branch from here on. @param {number} seq of the last message that stays
   * @param {import("./types.js").MessagePage} page
   */
  replaceAfter(seq, page) {
    this.edition += 1;
    this.#drop((view) => view.seq > seq);
    page.results.forEach((message) => this.#putLaidOut(message));
    this.hasAfter = page.has_after;
    this.refresh();
  }

  /** Places that depend on the neighbours: the last message, the forget line, the window. */
  refresh() {
    this.views.forEach((view, index) => {
      const next = this.views[index + 1];
      const isLast = !next && !this.hasAfter;
      const isAnswered = next ? next.isAnswer : this.hasAfter;
      const input = view.message.role === "user" ? view.seq : (this.views[index - 1]?.seq ?? 0);
      view.setPlace(isLast, isAnswered, !this.isRunning && input > this.forgetLine, !this.isRunning);
    });
    this.#mark(this.forgetMark, this.forgetLine ? this.forgetLine + 1 : 0, true);
    this.#markWindow();
  }

  /** Where the window of the newest request began. @param {import("./types.js").ContextFrame} context */
  showWindow(context) {
    this.windowFrom = context.window.messages ? (context.window.from_seq ?? 0) : 0;
    this.summarisedThrough = context.summary?.covers_through ?? 0;
    this.refresh();
  }

  /** Memory was cleared: no window reaches over the line. @param {number} seq */
  showForgetLine(seq) {
    this.forgetLine = seq;
    this.windowFrom = 0;
    this.summarisedThrough = 0;
    this.refresh();
  }

  /** One line where the summary ends and the window begins at the same message, else two. */
  #markWindow() {
    const isShown = this.windowFrom > this.forgetLine + 1;
    const summary = this.summarisedThrough > this.forgetLine ? this.summarisedThrough + 1 : 0;
    const isOne = Boolean(summary) && this.#indexFrom(summary) === this.#indexFrom(this.windowFrom);
    this.windowMark.textContent = isOne
      ? "Summarised up to here. The model was sent the summary and what follows."
      : "The model was sent what follows.";
    this.#mark(this.summaryMark, isOne ? 0 : summary, true);
    this.#mark(this.windowMark, isShown ? this.windowFrom : 0, false);
  }

  /** @param {number} seq */
  #indexFrom(seq) {
    return this.views.findIndex((view) => view.seq >= seq);
  }

  /** Load a message's neighbourhood, unless it is there. @param {number} seq */
  async toSeq(seq) {
    await this.#move(this.at(seq) ? null : `around=${seq}&limit=${PAGE}`);
  }

  async toLatest() {
    await this.#move(this.hasAfter ? `limit=${PAGE}` : null);
  }

  /** Where the reader wished to be last is what is shown. @param {string | null} query null: it is there */
  async #move(query) {
    this.moves += 1;
    const { moves } = this;
    if (!query) return;
    const page = await this.need.fetchPage(query);
    if (!this.isDisposed && moves === this.moves) this.reset(page);
  }

  dispose() {
    this.isDisposed = true;
    this.need.scroller.removeEventListener("scroll", this.onScroll);
    this.need.container.replaceChildren();
    this.need.olderNote.hidden = true;
    this.need.newerNote.hidden = true;
  }

  // --- The document ---------------------------------------------------------------------------

  /**
   * A row takes its place: in the answer that it belongs to, or as a message of its own.
   * @param {import("./types.js").Message} row
   */
  #put(row) {
    const view = this.find(row.id) ?? this.views.findLast((each) => each.takes(row));
    if (view) {
      view.put(row);
      return view;
    }
    const made = new MessageView([row], this.need.actions);
    this.#insert(made);
    return made;
  }

  /** @param {import("./types.js").Message} row */
  #putLaidOut(row) {
    const isKnown = this.find(row.id);
    const view = this.#put(row);
    if (!isKnown) laidOut(view);
  }

  /**
   * @param {MessageView} view
   * @param {import("./answer-view.js").AnswerView | null} [answer] whose place it takes
   */
  #insert(view, answer = null) {
    const next = this.views.findIndex((other) => other.seq > view.seq);
    const at = next < 0 ? this.views.length : next;
    const before = this.views[at - 1];
    this.views.splice(at, 0, view);
    if (answer?.element.isConnected && next < 0) answer.element.replaceWith(view.element);
    else if (before) before.element.after(view.element);
    else this.need.container.prepend(view.element);
  }

  /** @param {(view: MessageView) => boolean} isGone */
  #drop(isGone) {
    const gone = new Set(this.views.filter(isGone));
    gone.forEach((view) => view.element.remove());
    this.views = this.views.filter((view) => !gone.has(view));
  }

  /**
   * A line before the first message from `seq` on; none for 0 or while its place is not loaded.
   * @param {HTMLElement} mark @param {number} seq @param {boolean} atEnd also after all messages
   */
  #mark(mark, seq, atEnd) {
    const index = this.#indexFrom(seq);
    const isBetween = index > 0 || (index === 0 && !this.hasBefore && atEnd);
    if (seq && isBetween) this.views[index].element.before(mark);
    else if (seq && index < 0 && atEnd && this.last && !this.hasAfter) this.last.element.after(mark);
    else mark.remove();
  }

  // --- Pages ----------------------------------------------------------------------------------

  async #loadMore() {
    const { scroller } = this.need;
    if (this.isLoading || this.isDisposed || !this.views.length) return;
    const below = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
    const isUp = this.hasBefore && scroller.scrollTop < AHEAD;
    if (!isUp && !(this.hasAfter && below < AHEAD)) return;
    this.isLoading = true;
    let isRead = false;
    const { edition } = this;
    const note = isUp ? this.need.olderNote : this.need.newerNote;
    const query = isUp ? `before=${this.views[0].firstSeq}` : `after=${this.last?.seq}`;
    try {
      note.hidden = false;
      const page = await this.need.fetchPage(`${query}&limit=${PAGE}`);
      isRead = true;
      const isFitting = !this.isDisposed && edition === this.edition;
      if (isFitting) this.need.position.hold(() => this.#inSight(), () => this.#join(page, isUp));
    } catch (error) {
      console.info("More messages could not be loaded; scrolling tries again.", error);
    } finally {
      note.hidden = true;
      this.isLoading = false;
    }
    if (isRead) this.#loadMore(); // the reader may have gone to the other end meanwhile
  }

  /** @param {import("./types.js").MessagePage} page @param {boolean} isUp */
  #join(page, isUp) {
    this.need.olderNote.hidden = true;
    page.results.forEach((message) => this.#put(message));
    if (isUp) this.hasBefore = page.has_before;
    else this.hasAfter = page.has_after;
    const excess = this.views.length - MOST;
    if (excess > 0 && !this.isRunning) {
      const gone = new Set(isUp ? this.views.slice(-excess) : this.views.slice(0, excess));
      this.#drop((view) => gone.has(view));
      if (isUp) this.hasAfter = true;
      else this.hasBefore = true;
    }
    this.refresh();
  }

  /** @param {Set<MessageView>} [besides] */
  #inSight(besides) {
    const top = this.need.scroller.getBoundingClientRect().top;
    const isSeen = (/** @type {MessageView} */ view) => view.element.getBoundingClientRect().bottom > top;
    return this.views.find((view) => !besides?.has(view) && isSeen(view))?.element ?? null;
  }
}

/**
 * A new message has its real height at once, or what is being read would jump; then it is like the
 * others, whose height is estimated until they come into sight.
 * @param {MessageView} view
 */
function laidOut(view) {
  view.element.dataset.live = "";
  requestAnimationFrame(() => requestAnimationFrame(() => delete view.element.dataset.live));
  return view;
}
