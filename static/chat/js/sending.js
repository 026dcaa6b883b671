/** A message's way out of the box: a conversation for it, which must have been read, and its images. */

const LOADING = 10_000; // ms that a message waits for its conversation to be read
const NOT_LOADED = "This conversation is not loaded yet; send it again in a moment.";

/** @typedef {import("./conversation.js").Conversation} Conversation */

/**
 * @typedef {object} SendingDependencies
 * @property {() => Conversation | null} current
 * @property {() => import("./new-chat.js").NewChat} newChat
 * @property {() => import("./attachment-tray.js").AttachmentTray} tray
 */

/** @param {number} ms @returns {Promise<void>} */
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export class Sending {
  /** @param {SendingDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
  }

  get isReady() {
    const conversation = this.need.current();
    return !conversation || conversation.session !== null;
  }

  /** Wait until the conversation is read, and say whether it is still the one that is shown. */
  async untilReady() {
    const conversation = this.need.current();
    if (conversation) await Promise.race([conversation.loaded, pause(LOADING)]);
    return this.need.current() === conversation;
  }

  /** An image belongs to a session: the start page makes one for it. */
  async needSession() {
    const conversation = this.need.current() ?? (await this.#make());
    if (!conversation) throw new Error("There is no conversation to attach an image to.");
    return conversation.id;
  }

  /** @param {string} text @returns {Promise<string>} why it was not sent, or nothing */
  async send(text) {
    // No wait where there is one: the reader may go to another at this moment.
    const conversation = this.need.current() ?? (await this.#make());
    if (!conversation?.session) return NOT_LOADED;
    const tray = this.need.tray();
    const images = tray.take();
    try {
      const why = await conversation.send(text, images);
      if (why) tray.giveBack(conversation.id, images);
      return why;
    } catch (error) {
      tray.giveBack(conversation.id, images);
      throw error;
    }
  }

  async #make() {
    await this.need.newChat().create();
    return this.need.current();
  }
}
