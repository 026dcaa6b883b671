/** The bar above the messages: which conversation this is, and with whom. */

import { byId } from "./dom.js";
import { titleOf } from "./sessions.js";

/**
 * @param {import("./types.js").Session | null} session null: one that has not begun
 * @param {string} assistant slug
 * @param {string[]} demo slugs of the scripted assistants
 */
export function describe(session, assistant, demo) {
  const title = session ? titleOf(session) : "";
  byId("title").textContent = title || "New conversation";
  document.title = title ? `${title} · Chat` : "Chat";
  byId("assistant-name").textContent = session?.assistant.name ?? "";
  byId("demo-pill").hidden = !demo.includes(assistant);
  byId("temporary-pill").hidden = !session?.is_temporary;
}
