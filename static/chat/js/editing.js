/** Writing earlier messages of a conversation anew: one editor at a time. */

import { MessageEditor } from "./message-editor.js";

const OFFLINE = "There is no connection at the moment; send it again when it is back.";

/**
 * @typedef {object} EditingDependencies
 * @property {import("./message-list.js").MessageList} list
 * @property {number} limit characters in one message
 * @property {(fields: {message: string, text: string}, clientId: string) => boolean} order whether it went out
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
    this.editor?.need.onClose();
    const { message } = view;
    this.editor = new MessageEditor({
      text: message.content ?? "",
      limit: this.need.limit,
      onSend: (text, clientId) => (this.need.order({ message: message.id, text }, clientId) ? "" : OFFLINE),
      onClose: () => {
        view.showEditor(null);
        this.editor = null;
        view.focusEdit();
      },
    });
    view.showEditor(this.editor);
    this.editor.focus();
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
    this.editor = null;
    this.need.onSent();
  }

  /** @param {string | null} clientId @param {string} why @returns {boolean} whether it was about the editor */
  refused(clientId, why) {
    if (!clientId || this.editor?.clientId !== clientId) return false;
    this.editor.say(why);
    return true;
  }
}
