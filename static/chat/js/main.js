/** The chat page: puts its parts together and opens sessions in them. */

import { addressOf, sessionInAddress, showAddress, targetInAddress, toMessage } from "./address.js";
import { Announcer } from "./announcer.js";
import { Api } from "./api.js";
import { AttachmentTray } from "./attachment-tray.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { Details } from "./details.js";
import { showShortcuts } from "./dialogs.js";
import { byId } from "./dom.js";
import { Drafts, forgetDrafts, onSignedOutElsewhere } from "./drafts.js";
import { Layout } from "./layout.js";
import { MemoryPanel } from "./memory-panel.js";
import { NewChat } from "./new-chat.js";
import { listenToKeys } from "./page-keys.js";
import { PreferenceStore } from "./preference-store.js";
import { SearchBox } from "./search-box.js";
import { Sending } from "./sending.js";
import { SessionList } from "./sessions.js";
import { Status } from "./status.js";
import { describe, describeGone } from "./title-bar.js";
import { hideWelcome, showGone, showWelcome } from "./welcome.js";

const LOOK_AGAIN = [0, 2_000, 10_000]; // ms after a session was deleted elsewhere
const SCROLLED = 8; // px from which the title bar is parted from the messages

class ChatPage {
  constructor() {
    /** @type {import("./types.js").PageData} */
    this.data = JSON.parse(byId("page-data").textContent);
    /** @type {Conversation | null} */
    this.conversation = null;
    this.drafts = new Drafts(this.data.user);
    this.announcer = new Announcer(byId("live"));
    this.api = new Api(() => this.#signedOut());
    this.status = new Status({ onRetry: () => this.conversation?.retryConnection() });
    this.layout = new Layout((isOpen) => this.details?.setOpen(isOpen));
    this.sending = new Sending({
      current: () => this.conversation,
      newChat: () => this.newChat,
      tray: () => this.tray,
    });
    this.tray = this.#makeTray();
    this.composer = this.#makeComposer();
    this.sessions = this.#makeSessionList();
    this.newChat = this.#makeNewChat();
    this.preferences = new PreferenceStore(this.api);
    this.memory = this.#makeMemoryPanel();
    this.search = new SearchBox({
      api: this.api,
      onOpen: (session, target) => this.open(session, true, { target }),
      onShow: () => this.layout.setSessions(true),
    });
    this.details = new Details({
      api: this.api,
      store: this.preferences,
      preferenceActions: this.memory.actions,
      onMemoryShown: () => this.memory.load(),
      onNumbers: (frame) => this.#numbersRead(frame),
    });
    this.#listen();
  }

  start() {
    const early = this.composer.text; // typed before the page's modules were there
    this.layout.start();
    this.sessions.load();
    this.preferences.load().catch((error) => console.info("What is remembered could not be read.", error));
    if (this.data.session) this.open(this.data.session, false, { target: targetInAddress() });
    else this.#openEmpty();
    this.composer.giveBack(early);
    if (matchMedia("(hover: hover)").matches) this.composer.focus();
  }

  // --- Sessions -------------------------------------------------------------------------------

  /**
   * @param {string} id
   * @param {boolean} isNew an entry of its own in the browser's history
   * @param {{keepsText?: boolean, target?: import("./found.js").Target | null}} [how] `keepsText`:
   *   what stands in the box was typed for this session; `target`: which message to go to
   */
  async open(id, isNew, { keepsText = false, target = null } = {}) {
    showAddress(addressOf(id, target?.seq), isNew);
    if (this.conversation?.id === id) {
      this.layout.closeDrawers();
      if (target) await this.conversation.goTo(target);
      return;
    }
    this.#leave();
    const conversation = this.#makeConversation(id);
    this.conversation = conversation;
    this.sessions.setCurrent(id);
    this.details.setSession(id);
    this.memory.setSession(id);
    this.search.setSession(id);
    if (keepsText) this.#moveDraft(id);
    else this.composer.show(this.drafts.load(id));
    this.tray.show(id);
    this.#describe(this.sessions.sessions.get(id) ?? null);
    byId("assistant-choice").hidden = true;
    this.status.setConnection({ name: "connecting" });
    conversation.loaded.then(() => this.#read(conversation));
    await conversation.open(target);
  }

  /** @param {Conversation} conversation that has been read, or was left before */
  #read(conversation) {
    if (this.conversation !== conversation || !conversation.session || this.details.turn) return;
    this.details.setTurn(conversation.newestTurn, null);
  }

  #makeMemoryPanel() {
    return new MemoryPanel({
      api: this.api,
      store: this.preferences,
      isAvailable: this.data.memory_available,
      username: this.data.username,
      onNotice: (text, tone) => this.composer.say(text, tone),
      onOpen: (session, seq) => this.open(session, true, { target: toMessage(seq) }),
    });
  }

  #openEmpty() {
    this.#leave();
    this.sessions.setCurrent(null);
    this.details.setSession(null);
    this.memory.setSession(null);
    this.search.setSession(null);
    this.composer.show(this.drafts.load(null));
    this.tray.show(null);
    this.#describe(null);
    byId("assistant-choice").hidden = this.data.assistants.length < 2;
    this.#showWelcome(this.newChat.assistant);
  }

  #leave() {
    this.conversation?.dispose();
    this.conversation = null;
    hideWelcome();
    this.status.reset();
    this.composer.setClosed(false);
    this.composer.setRunning(false, false);
    byId("to-latest").hidden = true;
    this.layout.closeDrawers();
  }

  #makeNewChat() {
    return new NewChat({
      api: this.api,
      data: this.data,
      current: () => this.conversation,
      onLeave: () => {
        this.#openEmpty();
        this.composer.focus();
      },
      onCreated: (session, keepsText) => {
        this.sessions.update(session);
        return this.open(session.id, true, { keepsText });
      },
      onLeft: (session) => this.sessions.update(session),
      onFailed: async (before, why) => {
        if (before && !this.conversation) await this.open(before, false);
        this.composer.say(why);
      },
      onChosen: () => {
        this.#describe(null);
        this.#showWelcome(this.newChat.assistant);
      },
    });
  }

  async #beginNew(isTemporary = false) {
    if (await this.newChat.begin(isTemporary)) return; // whoever has gone on meanwhile keeps the focus
    this.layout.closeDrawers();
    this.composer.focus();
  }

  /** @param {string} id */
  #moveDraft(id) {
    this.drafts.save(null, "");
    this.drafts.save(id, this.composer.text);
  }

  /** @param {string} id */
  #makeConversation(id) {
    const isCurrent = () => this.conversation?.id === id;
    return new Conversation(id, {
      api: this.api,
      drafts: this.drafts,
      announcer: this.announcer,
      store: this.preferences,
      preferenceActions: this.memory.actions,
      elements: {
        container: byId("messages"),
        scroller: byId("scroller"),
        olderNote: byId("older"),
        newerNote: byId("newer"),
      },
      onSession: (session) => {
        this.sessions.update(session);
        if (isCurrent()) this.#describe(session);
      },
      onMessages: (isEmpty) => isCurrent() && this.#messagesChanged(isEmpty),
      onConnection: (state) => {
        if (state.name === "signed-out") this.#signedOut();
        else this.status.setConnection(state);
      },
      onRunning: (isRunning, isStopping) => {
        this.status.setRunning(isRunning, isStopping);
        this.composer.setRunning(isRunning, isStopping);
      },
      onContext: (context) => this.details.setTurn(context.turn, context),
      onShowContext: (turn) => this.#showContext(turn),
      onGone: (why) => this.#gone(id, why),
      onMemory: (isOn) => this.memory.setMemory(isOn),
      onUnsent: (attachments) => this.tray.giveBack(id, attachments),
      onGivenBack: (text, why, attachments) => {
        this.tray.giveBack(id, attachments);
        this.composer.giveBack(text);
        this.composer.say(why);
      },
      onNotice: (text, tone) => this.composer.say(text, tone),
      onScroll: () => isCurrent() && this.#scrolled(),
      onBranch: () => isCurrent() && this.details.setTurn(this.conversation?.newestTurn ?? null, null),
      onEdited: () => this.composer.focus(),
      limit: this.data.max_message_chars,
    });
  }

  #makeSessionList() {
    return new SessionList({
      api: this.api,
      container: byId("session-list"),
      onOpen: (id) => this.open(id, true),
      onChanged: (session) => session.id === this.conversation?.id && this.#describe(session),
      onDeleted: (id) => id === this.conversation?.id && this.#openNewest(),
      onProblem: (text) => this.composer.say(text),
      onSaid: (text) => this.announcer.say(text),
    });
  }

  #openNewest() {
    const { newest } = this.sessions;
    if (newest) this.open(newest.id, true);
    else {
      showAddress("/", true);
      this.#openEmpty();
    }
  }

  // --- Writing --------------------------------------------------------------------------------

  #makeTray() {
    const { max_attachments: count, max_attachment_bytes: bytes } = this.data;
    return new AttachmentTray({
      api: this.api,
      drafts: this.drafts,
      limits: { count, bytes },
      needSession: () => this.sending.needSession(),
      onChange: () => this.composer?.imagesChanged(),
      onProblem: (text) => this.composer.say(text),
      onRemoved: () => this.composer.focus(),
    });
  }

  #makeComposer() {
    return new Composer({
      tray: () => this.tray,
      limit: this.data.max_message_chars,
      isReady: () => this.sending.isReady,
      untilReady: () => this.sending.untilReady(),
      onSend: (text) => this.sending.send(text),
      onCommand: (command) => this.#command(command),
      onStop: () => this.conversation?.stop(),
      onShortcuts: showShortcuts,
      onEditLast: () => this.conversation?.editLast() ?? false,
      onDraft: (text) => this.drafts.save(this.conversation?.id ?? null, text),
    });
  }

  /** @param {any} command @returns {Promise<string>} */
  async #command(command) {
    if (command.name === "remember") return this.memory.remember(command.key, command.value);
    if (command.name === "forget") return this.memory.forget(command.words);
    if (command.name === "search") this.search.open(command.words);
    else await this.#beginNew(command.name === "temporary");
    return "";
  }

  // --- What is shown --------------------------------------------------------------------------

  /** @param {import("./types.js").Session | null} session */
  #describe(session) {
    const slug = session?.assistant.slug ?? this.newChat.assistant?.slug ?? "";
    describe(session, slug, this.data.demo_assistants, this.data.temporary_hours);
  }

  /** @param {boolean} isEmpty */
  #messagesChanged(isEmpty) {
    if (isEmpty) this.#showWelcome(this.conversation?.session?.assistant ?? null);
    else hideWelcome();
  }

  /** @param {{slug: string, name: string} | null} assistant */
  #showWelcome(assistant) {
    const isDemo = this.data.demo_assistants.includes(assistant?.slug ?? "");
    showWelcome(assistant, isDemo, (text) => this.composer.setText(text));
  }

  /** @param {string} id @param {"missing" | "deleted"} why */
  #gone(id, why) {
    this.sessions.remove(id);
    // Others may go with it, one after the other.
    for (const ms of LOOK_AGAIN) setTimeout(() => this.sessions.refresh(), ms);
    if (this.conversation?.id !== id) return;
    describeGone();
    this.status.reset();
    this.composer.setRunning(false, false);
    this.composer.setClosed(true);
    this.drafts.save(id, "");
    this.details.setSession(null);
    this.memory.setSession(null);
    hideWelcome();
    showGone(why, () => {
      this.conversation = null;
      this.#beginNew();
    });
  }

  #signedOut() {
    this.drafts.close();
    this.conversation?.disconnect();
    this.conversation?.outbox.takeBack();
    this.status.setConnection({ name: "signed-out" });
    this.composer.setRunning(false, false);
    this.composer.setClosed(true);
  }

  /** @param {string} turn */
  #showContext(turn) {
    if (this.details.turn !== turn) this.details.setTurn(turn, null);
    this.details.select("tab-sent");
    this.layout.setDetails(true, true);
  }

  /** @param {import("./types.js").ContextFrame} frame */
  #numbersRead(frame) {
    this.conversation?.showUsed(frame);
    if (frame.turn === this.conversation?.newestTurn) this.conversation.showWindow(frame);
  }

  #scrolled() {
    const { conversation } = this;
    if (!conversation) return;
    byId("to-latest").hidden = conversation.position.isAtEnd && !conversation.list.hasAfter;
    byId("conversation").toggleAttribute("data-scrolled", byId("scroller").scrollTop > SCROLLED);
  }

  // --- The window -----------------------------------------------------------------------------

  #listen() {
    byId("new-chat").addEventListener("click", () => this.#beginNew());
    byId("new-temporary").addEventListener("click", () => this.#beginNew(true));
    byId("to-latest").addEventListener("click", () => this.conversation?.toLatest());
    byId("context-line").addEventListener("click", () => this.#showContext(this.details.turn ?? ""));
    byId("sign-out").addEventListener("submit", () => {
      this.drafts.close();
      forgetDrafts();
    });
    onSignedOutElsewhere(() => this.#signedOut());
    addEventListener("popstate", () => {
      const id = sessionInAddress();
      if (id) this.open(id, false, { target: targetInAddress() });
      else this.#openEmpty();
    });
    listenToKeys({
      onEscape: () => this.layout.closeDrawers() || this.conversation?.stop(),
      onSearch: () => this.search.open(),
      onShortcuts: showShortcuts,
      onWrite: () => this.composer.focus(),
    });
  }
}

new ChatPage().start();
