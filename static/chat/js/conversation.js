/** One open session: read over REST, then followed over its websocket. */

import { AnswerExtras } from "./answer-extras.js";
import { ApiError } from "./api.js";
import { Branches } from "./branches.js";
import { Destination } from "./destination.js";
import { Editing } from "./editing.js";
import { deletePair, rate } from "./message-deeds.js";
import { MessageList } from "./message-list.js";
import { Orders } from "./orders.js";
import { Outbox } from "./outbox.js";
import { refusalWords } from "./refusals.js";
import { ReadingPosition } from "./reading-position.js";
import { SessionReading } from "./session-reading.js";
import { ChatSocket } from "./socket.js";
import { TurnFollower } from "./turn-follower.js";

const PAGE = "limit=50";
const TRY_AGAIN = 3_000; // ms until a conversation that could not be read is read again
const ENDS = ["turn.completed", "turn.stopped", "turn.failed", "turn.interrupted"];
const PREFERENCES = ["preference.proposed", "preference.saved", "preference.forgotten"];
const LOST_EDIT = "The message that you were writing anew is not on this page any more. What you wrote stands here.";
const TEXTS = ["turn.snapshot", "turn.delta", "turn.html"];

/**
 * @typedef {object} ConversationDependencies
 * @property {import("./api.js").Api} api
 * @property {import("./drafts.js").Drafts} drafts
 * @property {import("./announcer.js").Announcer} announcer
 * @property {import("./preference-store.js").PreferenceStore} store
 * @property {import("./preference-view.js").PreferenceActions} preferenceActions
 * @property {Record<"container" | "scroller" | "olderNote" | "newerNote", HTMLElement>} elements
 * @property {(session: import("./types.js").Session) => void} onSession read, or changed
 * @property {(isEmpty: boolean) => void} onMessages
 * @property {(state: import("./socket.js").SocketState) => void} onConnection
 * @property {(isRunning: boolean, isStopping: boolean) => void} onRunning
 * @property {(context: import("./types.js").ContextFrame) => void} onContext
 * @property {(turn: string) => void} onShowContext
 * @property {(why: "missing" | "deleted") => void} onGone
 * @property {(isMemoryOn: boolean) => void} onMemory
 * @property {(text: string, why: string, attachments: import("./types.js").Attachment[]) => void} onGivenBack
 * @property {(attachments: import("./types.js").Attachment[]) => void} onUnsent
 * @property {(text: string, tone?: string) => void} onNotice
 * @property {() => void} onScroll
 * @property {() => void} onBranch another branch is shown
 * @property {() => void} onEdited a message that was written anew is on its way
 * @property {number} limit characters in one message
 */

export class Conversation {
  /** @param {string} id @param {ConversationDependencies} dependencies */
  constructor(id, dependencies) {
    this.id = id;
    this.need = dependencies;
    const { container, scroller } = dependencies.elements;
    /** @type {import("./types.js").Session | null} */
    this.session = null;
    /** @type {Promise<void>} settled too when it is left before it was read */
    this.loaded = new Promise((done) => {
      this.markLoaded = done;
    });
    this.isDisposed = false;
    const isOver = () => this.isDisposed;
    this.reading = new SessionReading({
      fetch: () => Promise.all([this.#get(""), this.#get(`messages/?${PAGE}`)]),
      onRead: (session, page) => this.#adopt(session, page),
      onFrame: (frame) => this.#handle(frame),
      onFailed: (error) => this.#readFailed(error),
      isOver,
    });
    this.position = new ReadingPosition(scroller, dependencies.onScroll);
    const { position } = this;
    const fetchPage = (/** @type {string} */ query) => this.#get(`messages/?${query}`);
    const actions = {
      onRetry: (/** @type {string} */ turn) => this.orders.retry(turn),
      onRegenerate: (/** @type {string} */ turn) => this.orders.regenerate(turn),
      onContinue: (/** @type {string} */ turn) => this.orders.goOn(turn),
      onShowContext: dependencies.onShowContext,
      onEdit: (/** @type {import("./message-view.js").MessageView} */ view) => this.editing.begin(view),
      onChoose: (/** @type {string} */ message, /** @type {import("./message-view.js").MessageView} */ view) =>
        this.branches.choose(message, view),
      onDelete: (/** @type {import("./types.js").Message} */ message) => deletePair(this.deeds, message),
      onRate: (/** @type {import("./types.js").Turn} */ turn, /** @type {1 | -1} */ value) =>
        rate(this.deeds, turn, value),
    };
    this.list = new MessageList({ ...dependencies.elements, position, fetchPage, actions });
    const shared = { session: id, api: dependencies.api, list: this.list, onNotice: dependencies.onNotice };
    this.deeds = { ...shared, store: dependencies.store, onDrawn: () => this.#drawn() };
    this.branches = new Branches({
      ...shared,
      position,
      announcer: dependencies.announcer,
      onShown: () => this.#branchShown(),
    });
    this.destination = new Destination({
      list: this.list,
      branches: this.branches,
      position,
      onDrawn: () => this.#drawn(),
      onNotice: dependencies.onNotice,
      isOver,
    });
    this.editing = new Editing({
      list: this.list,
      limit: dependencies.limit,
      order: (fields, clientId) => this.outbox.order("message.edit", fields, clientId),
      keep: (edit) => dependencies.drafts.keepEdit(id, edit),
      onLost: (text) => dependencies.onGivenBack(text, LOST_EDIT, []),
      onSent: dependencies.onEdited,
    });
    this.extras = new AnswerExtras({
      session: id,
      list: this.list,
      store: dependencies.store,
      actions: {
        ...dependencies.preferenceActions,
        onAnswer: (preference, keep) => this.orders.answerPreference(preference, keep),
      },
      announcer: dependencies.announcer,
      onDrawn: () => position.follow(),
    });
    this.follower = new TurnFollower({
      list: this.list,
      container,
      position,
      announcer: dependencies.announcer,
      askSync: (turn) => this.socket.send({ type: "turn.sync", turn }),
      reload: () => this.#reload(),
      onRunning: (isRunning, isStopping) => this.#runningChanged(isRunning, isStopping),
    });
    this.outbox = new Outbox({
      session: id,
      drafts: dependencies.drafts,
      container,
      position,
      transmit: (frame) => {
        const isOut = this.socket.send(frame);
        this.socket.probe();
        return isOut;
      },
      giveBack: (text, why, attachments) => {
        this.#drawn();
        dependencies.onGivenBack(text, why, attachments);
      },
    });
    this.socket = new ChatSocket(
      `/ws/chat/${id}/`,
      (frame) => this.reading.receive(frame),
      (state) => this.#connectionChanged(state),
    );
    this.orders = new Orders({
      session: id,
      api: dependencies.api,
      outbox: this.outbox,
      socket: this.socket,
      follower: this.follower,
      preferenceActions: dependencies.preferenceActions,
      onGoingOn: () => {
        this.destination.wish(null);
        position.toEnd();
      },
      onNotice: dependencies.onNotice,
    });
  }

  get isEmpty() {
    return !this.list.views.length && !this.outbox.pending && !this.follower.answer;
  }

  /** @param {import("./found.js").Target | null} [target] where the reader wants to be; null: at the end */
  async open(target = null) {
    this.destination.wish(target);
    if (!(await this.reading.read())) return;
    this.outbox.restore();
    this.editing.restore(this.need.drafts.edit(this.id));
    this.#drawn();
    this.position.toEnd();
    this.socket.open();
    await this.destination.goThere();
  }

  /** Bring a message into sight, and mark it. @param {import("./found.js").Target} target */
  async goTo(target) {
    this.destination.wish(target);
    if (this.session) await this.destination.goThere(); // else once it is read
  }

  /**
   * @param {string} text
   * @param {import("./types.js").Attachment[]} attachments
   * @returns {Promise<string>} why it was not sent, or nothing
   */
  async send(text, attachments) {
    if (this.outbox.pending) return "Your last message is still on its way.";
    if (this.follower.answer && !this.follower.isStopping) {
      return this.socket.isOnline
        ? "The answer is still being written: wait for its end, or stop it with Esc."
        : "An answer was being written when the connection was lost. Send this when it is back.";
    }
    this.destination.wish(null);
    if (this.list.hasAfter) await this.list.toLatest();
    if (this.isDisposed) {
      this.need.drafts.save(this.id, text); // the reader has gone to another chat meanwhile
      this.need.onUnsent(attachments);
      return "";
    }
    const why = this.outbox.send(text, this.list.last?.id ?? null, attachments);
    if (!why) this.#drawn();
    return why;
  }

  /** @returns {boolean} whether there is a message to write anew */
  editLast() {
    return this.editing.beginLast();
  }

  async stop() {
    await this.orders.stop();
  }

  /** The newest turn, or null before the first. */
  get newestTurn() {
    return this.list.views.findLast((view) => view.message.turn)?.message.turn?.id ?? null;
  }

  /** Draw where the window of the newest request began. @param {import("./types.js").ContextFrame} context */
  showWindow(context) {
    this.list.showWindow(context);
    this.position.follow();
  }

  /** What of memory went with a request. @param {import("./types.js").ContextFrame} context */
  showUsed(context) {
    this.extras.showUsed(context);
  }

  async toLatest() {
    await this.destination.toLatest();
  }

  retryConnection() {
    this.socket.retryNow();
  }

  /** What is on the screen stays; nothing more comes or goes. */
  disconnect() {
    this.isDisposed = true;
    this.markLoaded();
    this.socket.close();
  }

  dispose() {
    this.disconnect();
    this.extras.dispose();
    this.follower.dispose();
    this.list.dispose();
  }

  // --- Reading --------------------------------------------------------------------------------

  /** @param {string} path below the session */
  #get(path) {
    return this.need.api.get(`sessions/${this.id}/${path}`);
  }

  /** @param {Error} error */
  #readFailed(error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 404) this.#gone("missing");
    if (error.status === 404 || error.status === 401) return;
    this.need.onConnection({ name: "waiting", retryAt: Date.now() + TRY_AGAIN });
    const again = () => (this.session ? this.#reload() : this.open(this.destination.target));
    setTimeout(() => !this.isDisposed && again(), TRY_AGAIN);
  }

  /**
   * @param {import("./types.js").Session} session
   * @param {import("./types.js").MessagePage} page
   */
  #adopt(session, page) {
    const isFirst = !this.session;
    this.session = session;
    this.markLoaded();
    this.list.forgetLine = session.memory_starts_after;
    const isShown = (/** @type {import("./types.js").Message} */ message) =>
      message.role === "user" || message.turn?.status !== "running";
    const shown = { ...page, results: page.results.filter(isShown) };
    if (isFirst) this.list.reset(shown);
    else this.list.merge(shown);
    this.follower.adopt(page.results);
    if (this.outbox.pending) this.need.elements.container.append(this.outbox.bubble);
    this.need.onSession(session);
  }

  /** Something was missed: read again; what comes in meanwhile is applied on top. */
  async #reload() {
    if (!(await this.reading.readAgain())) return;
    this.outbox.transmit();
    this.position.follow();
    this.#drawn();
  }

  /** Another branch is on the page: what is told about its newest answer is another one too. */
  #branchShown() {
    if (this.isDisposed) return;
    this.#drawn();
    this.need.onScroll(); // what is beyond the page may be something else now
    this.need.onBranch();
  }

  #drawn() {
    this.editing.look();
    this.extras.draw();
    this.need.onMessages(this.isEmpty);
  }

  /** @param {"missing" | "deleted"} why */
  #gone(why) {
    this.outbox.takeBack();
    this.dispose();
    this.need.onGone(why);
  }

  // --- The socket -----------------------------------------------------------------------------

  /** @param {import("./socket.js").SocketState} state */
  #connectionChanged(state) {
    if (state.name !== "online") this.outbox.connectionLost();
    if (state.name === "gone") this.#gone("deleted");
    else if (state.name === "too-large") this.outbox.refused(null, "The message is too large.");
    else this.need.onConnection(state);
  }

  /** @param {boolean} isRunning @param {boolean} isStopping */
  #runningChanged(isRunning, isStopping) {
    this.need.onRunning(isRunning, isStopping);
    if (isRunning || !this.session) return;
    this.extras.draw();
    this.session = { ...this.session, running: null };
    this.need.onSession(this.session);
  }

  /** @param {import("./types.js").Frame} frame */
  #handle(frame) {
    if (TEXTS.includes(frame.type)) this.follower.onText(frame);
    else if (ENDS.includes(frame.type)) this.follower.onEnded(frame);
    else if (frame.type === "session.ready") this.#onReady(frame);
    else if (PREFERENCES.includes(frame.type)) this.extras.onFrame(frame);
    else if (frame.type === "turn.tool") this.follower.onTool(frame);
    else if (frame.type === "turn.accepted") this.#onAccepted(frame);
    else if (frame.type === "turn.context") this.#onContext(frame);
    else if (frame.type === "memory.cleared") this.#onCleared(frame);
    else if (frame.type === "session.updated") this.#onUpdated(frame);
    else if (frame.type === "session.deleted") this.#gone("deleted");
    else if (frame.type === "messages.redacted") this.#reload();
    else if (frame.type === "error") this.#onError(frame);
  }

  /** @param {import("./types.js").Frame} frame */
  #onReady(frame) {
    this.outbox.maxFrameBytes = frame.limits.max_frame_bytes;
    this.need.onMemory(frame.memory.enabled);
    const isSame = frame.running
      ? frame.running === this.follower.turn
      : !this.follower.answer && (this.list.hasAfter || frame.head === (this.list.last?.id ?? null));
    const isLineSame = frame.memory.starts_after === this.list.forgetLine;
    this.orders.stopAgain(frame.running);
    if (isSame && isLineSame) this.outbox.transmit();
    else this.#reload();
  }

  /** @param {import("./types.js").Frame} frame */
  #onAccepted(frame) {
    const isMine = this.outbox.accepted(frame.client_id);
    this.follower.onAccepted(frame);
    this.editing.accepted(frame.client_id);
    this.orders.accepted();
    if (isMine) this.position.toEnd();
    if (isMine && frame.notes?.length) this.need.onNotice(frame.notes.join(" "), "plain");
    const now = new Date().toISOString();
    const count = (this.session?.message_count ?? 0) + 1;
    if (this.session) {
      this.session = { ...this.session, running: frame.turn, last_active_at: now, message_count: count };
    }
    if (this.session) this.need.onSession(this.session);
    this.#drawn();
  }

  /** @param {import("./types.js").Frame} frame */
  #onContext(frame) {
    const context = /** @type {import("./types.js").ContextFrame} */ (/** @type {unknown} */ (frame));
    this.showWindow(context);
    this.showUsed(context);
    this.need.onContext(context);
  }

  /** @param {import("./types.js").Frame} frame */
  #onCleared(frame) {
    this.list.showForgetLine(frame.memory_starts_after);
    this.position.follow();
    // All that is remembered may have gone with it.
    this.need.store.load().catch((error) => console.info("What is remembered could not be read.", error));
  }

  /** @param {import("./types.js").Frame} frame */
  #onUpdated(frame) {
    if (!this.session) return;
    const isOther = frame.head !== undefined; // another branch is shown, or something was deleted
    if (isOther && !this.follower.answer && !this.branches.knows(frame.head)) {
      this.#reload().then(() => this.#branchShown());
    }
    const { type, session, ...changes } = frame;
    this.session = { ...this.session, ...changes };
    this.need.onSession(this.session);
  }

  /** @param {import("./types.js").Frame} frame */
  #onError(frame) {
    const why = refusalWords(frame);
    const isMessage = this.outbox.refused(frame.client_id, why);
    if (!this.editing.refused(frame.client_id, why) && !isMessage) this.need.onNotice(why);
    if (frame.code === "stale_parent") this.#reload();
  }
}
