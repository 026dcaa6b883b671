/** Writing earlier messages of a conversation anew: one editor at a time. */

import { MessageEditor } from "./message-editor.js";

const OFFLINE = "There is no connection at the moment; send it again when it is back.";

/**
 * @typedef {object} EditingDependencies
 * @property {import("./message-list.js").MessageList} list
 * @property {number} limit characters in one message
 * @property {(fields: {message: string, text: string}, clientId: string) => boolean} order whether it went out
 * @property {(edit: import("./drafts.js").Edit | null) => void} keep what is written, over reloads
 * @property {(text: string) => void} onLost its message is not on the page any more
 * @property {() => void} onSent
 */

export class Editing {
  /** @param {EditingDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    /** @type {MessageEditor | null} */
    this.editor = null;
  }

  /** @param {import("./message-view.js").MessageView} view */
  begin(view) {
    this.#open(view).focus();
  }

  /** What a reload interrupted goes on. @param {import("./drafts.js").Edit | null} kept */
  restore(kept) {
    if (!kept) return;
    const view = this.need.list.find(kept.message);
    if (view) this.#open(view, kept.text);
    else this.#lost(kept.text);
  }

  /** Its message may have left the page: it was written anew elsewhere, or deleted. */
  look() {
    if (this.editor && !this.editor.element.isConnected) this.#lost(this.editor.text);
  }

  /** @param {import("./message-view.js").MessageView} view @param {string} [written] */
  #open(view, written) {
    this.editor?.need.onClose();
    const { message } = view;
    const editor = new MessageEditor({
      text: message.content ?? "",
      written,
      limit: this.need.limit,
      onInput: (text) => this.need.keep({ message: message.id, text }),
      onSend: (text, clientId) => (this.need.order({ message: message.id, text }, clientId) ? "" : OFFLINE),
      onClose: () => {
        this.#end();
        view.showEditor(null);
        view.focusEdit();
      },
    });
    this.editor = editor;
    view.showEditor(editor);
    return editor;
  }

  #end() {
    this.editor = null;
    this.need.keep(null);
  }

  /** @param {string} text */
  #lost(text) {
    const isNew = text !== this.editor?.need.text;
    this.#end();
    if (isNew) this.need.onLost(text);
  }

  /** The last message of this person that can be written anew. @returns {boolean} whether there is one */
  beginLast() {
    const view = this.need.list.views.findLast((each) => each.isEditable);
    if (view) this.begin(view);
    return Boolean(view);
  }

  /** Its message leaves the page, and the editor with it. @param {string} clientId */
  accepted(clientId) {
    if (this.editor?.clientId !== clientId) return;
    this.#end();
    this.need.onSent();
  }

  /** @param {string | null} clientId @param {string} why @returns {boolean} whether it was about the editor */
  refused(clientId, why) {
    if (!clientId || this.editor?.clientId !== clientId) return false;
    this.editor.say(why);
    return true;
  }
}
