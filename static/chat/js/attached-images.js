/** Images as they stand beside a message. */

import { element } from "./dom.js";

const MOST_WIDE = 320; // px
const MOST_HIGH = 240;

/**
 * The room of an image is known before it is loaded, so nothing moves when it comes.
 * @param {import("./types.js").Attachment[]} [attachments]
 * @returns {HTMLElement | null}
 */
export function imageRow(attachments = []) {
  if (!attachments.length) return null;
  return element("div", { class: "images" }, ...attachments.map((each) => imageLink(each)));
}

/** @param {import("./types.js").Attachment} attachment */
function imageLink({ url, name, width, height }) {
  const scale = Math.min(1, MOST_WIDE / width, MOST_HIGH / height);
  const image = element("img", {
    src: url,
    alt: name,
    title: name,
    width: Math.max(1, Math.round(width * scale)),
    height: Math.max(1, Math.round(height * scale)),
    loading: "lazy",
    decoding: "async",
  });
  return element("a", { class: "image", href: url, target: "_blank", rel: "noopener" }, image);
}
