/** Images that wait to be sent: pasted, dropped or chosen; uploaded at once, removed again. */

import { byId, element, iconButton } from "./dom.js";
import { counted, number } from "./format.js";

const TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/**
 * @typedef {object} Waiting one image in the tray
 * @property {string} name
 * @property {import("./types.js").Attachment | null} attachment null while it is on its way
 * @property {HTMLElement} node
 *
 * @typedef {object} TrayDependencies
 * @property {import("./api.js").Api} api
 * @property {import("./drafts.js").Drafts} drafts
 * @property {{count: number, bytes: number}} limits of one message, and of one image
 * @property {() => Promise<string>} needSession the session that is open, or one that is made now
 * @property {() => void} onChange
 * @property {(text: string) => void} onProblem
 * @property {() => void} onRemoved
 */

export class AttachmentTray {
  /** @param {TrayDependencies} dependencies */
  constructor(dependencies) {
    this.need = dependencies;
    this.list = byId("attachments");
    this.status = byId("attachments-status");
    /** @type {HTMLInputElement} */
    this.input = byId("attach-file");
    this.preparing = 0; // images whose session is being made
    /** @type {string | null} */
    this.session = null;
    /** @type {Map<string, Waiting[]>} */
    this.waiting = new Map();
    this.#listen();
  }

  get items() {
    return (this.session && this.waiting.get(this.session)) || [];
  }

  get count() {
    return this.items.length;
  }

  /** An image is still on its way to the server. */
  get isBusy() {
    return this.preparing > 0 || this.items.some((item) => !item.attachment);
  }

  /** Another session's images. @param {string | null} session */
  show(session) {
    this.session = session;
    if (session && !this.waiting.has(session)) this.#restore(session);
    this.#draw();
  }

  /** @param {Iterable<File>} files */
  async add(files) {
    const taken = [...files].filter((file) => this.#isTaken(file));
    if (!taken.length) return;
    try {
      const session = await this.#prepare();
      await Promise.all(taken.map((file) => this.#upload(session, file)));
    } catch (error) {
      this.need.onProblem(/** @type {Error} */ (error).message);
    }
  }

  /** What goes out with the message; the tray is empty then. */
  take() {
    const taken = this.items.flatMap((item) => item.attachment ?? []);
    if (this.session) this.#set(this.session, []);
    return taken;
  }

  /** @param {string} session @param {import("./types.js").Attachment[]} attachments that were not sent */
  giveBack(session, attachments) {
    if (!attachments.length) return;
    const kept = this.waiting.get(session) ?? [];
    this.#set(session, [...attachments.map((each) => this.#ready(session, each)), ...kept]);
  }

  // --- Adding ---------------------------------------------------------------------------------

  #listen() {
    byId("attach").addEventListener("click", () => this.input.click());
    this.input.addEventListener("change", () => {
      const files = [...(this.input.files ?? [])];
      this.input.value = ""; // so that the same file can be chosen again
      this.add(files);
    });
    const area = byId("conversation");
    const hasFiles = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files");
    area.addEventListener("dragover", (/** @type {DragEvent} */ event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      area.dataset.dropping = "";
    });
    area.addEventListener("dragleave", (/** @type {DragEvent} */ event) => {
      if (!area.contains(/** @type {Node | null} */ (event.relatedTarget))) delete area.dataset.dropping;
    });
    area.addEventListener("drop", (/** @type {DragEvent} */ event) => {
      delete area.dataset.dropping;
      if (!hasFiles(event)) return;
      event.preventDefault();
      this.add(event.dataTransfer?.files ?? []);
    });
  }

  /** Whoever presses Enter meanwhile means to send the image too. @returns {Promise<string>} the session */
  async #prepare() {
    this.preparing += 1;
    this.need.onChange();
    try {
      return await this.need.needSession();
    } finally {
      this.preparing -= 1;
      this.need.onChange();
    }
  }

  /** What can be known here is said at once; the server looks at the content. @param {File} file */
  #isTaken(file) {
    const { bytes } = this.need.limits;
    if (!TYPES.includes(file.type)) {
      this.need.onProblem(`${file.name} is not attached: only PNG, JPEG, GIF and WebP images can be.`);
    } else if (file.size > bytes) {
      this.need.onProblem(
        `${file.name} is not attached: it has ${number(file.size)} bytes, ${number(bytes)} are allowed.`,
      );
    } else return true;
    return false;
  }

  /** @param {string} session @param {File} file */
  async #upload(session, file) {
    const kept = this.waiting.get(session) ?? [];
    if (kept.length >= this.need.limits.count) {
      this.need.onProblem(`A message takes ${counted(this.need.limits.count, "image")} at most.`);
      return;
    }
    const item = this.#item(session, file.name);
    this.#set(session, [...kept, item]);
    this.#preview(item, file);
    const form = new FormData();
    form.append("file", file);
    try {
      item.attachment = await this.need.api.post(`sessions/${session}/attachments/`, form);
      item.node.removeAttribute("aria-busy");
      this.status.textContent = `${file.name} is attached.`;
    } catch (error) {
      this.#drop(session, item);
      this.need.onProblem(`${file.name} is not attached: ${/** @type {Error} */ (error).message}`);
      return;
    }
    if (this.waiting.get(session)?.includes(item)) this.#set(session, this.waiting.get(session) ?? []);
    else this.#forget(item); // removed while it was on its way
  }

  /** @param {Waiting} item @param {File} file */
  async #preview(item, file) {
    try {
      item.node.prepend(thumbnail(await dataUrlOf(file)));
    } catch (error) {
      console.info("There is no preview of an image; its name is shown.", error);
    }
  }

  // --- What waits -----------------------------------------------------------------------------

  /** @param {string} session @param {string} name @returns {Waiting} */
  #item(session, name) {
    const node = element("li", { class: "attachment", "aria-busy": true });
    /** @type {Waiting} */
    const item = { name, attachment: null, node };
    const remove = iconButton("close", `Remove ${name}`, () => this.#remove(session, item));
    node.append(element("span", { class: "attachment-name", dir: "auto", text: name }), remove);
    return item;
  }

  /** @param {string} session @param {import("./types.js").Attachment} attachment */
  #ready(session, attachment) {
    const item = this.#item(session, attachment.name);
    item.attachment = attachment;
    item.node.removeAttribute("aria-busy");
    item.node.prepend(thumbnail(attachment.url));
    return item;
  }

  /** @param {string} session @param {Waiting} item */
  #remove(session, item) {
    this.#drop(session, item);
    this.status.textContent = `${item.name} was removed.`;
    this.need.onRemoved();
    if (item.attachment) this.#forget(item);
  }

  /** @param {string} session @param {Waiting} item */
  #drop(session, item) {
    this.#set(session, (this.waiting.get(session) ?? []).filter((other) => other !== item));
  }

  /** @param {Waiting} item that nobody will send */
  async #forget(item) {
    try {
      await this.need.api.delete(`attachments/${item.attachment?.id}/`);
    } catch (error) {
      console.info("An image was not removed; the server does that after a day.", error);
    }
  }

  /** @param {string} session */
  #restore(session) {
    const kept = this.need.drafts.images(session);
    this.waiting.set(session, kept.map((each) => this.#ready(session, each)));
  }

  /** @param {string} session @param {Waiting[]} items */
  #set(session, items) {
    this.waiting.set(session, items);
    this.need.drafts.keepImages(session, items.flatMap((item) => item.attachment ?? []));
    if (session === this.session) this.#draw();
  }

  #draw() {
    this.list.replaceChildren(...this.items.map((item) => item.node));
    this.list.hidden = !this.count;
    this.need.onChange();
  }
}

/** Its name stands beside it. @param {string} url */
const thumbnail = (url) => element("img", { class: "thumbnail", src: url, alt: "" });

/** The policy allows images from data, not from blobs. @param {File} file @returns {Promise<string>} */
function dataUrlOf(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(/** @type {string} */ (reader.result)));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(file);
  });
}
