/** The bar above the messages: which conversation this is, and with whom. */

import { byId } from "./dom.js";
import { counted, time } from "./format.js";
import { titleOf } from "./session-row.js";

/**
 * @param {import("./types.js").Session | null} session null: one that has not begun
 * @param {string} assistant slug
 * @param {string[]} demo slugs of the scripted assistants
 * @param {number} hours that the text of a temporary conversation is kept
 */
export function describe(session, assistant, demo, hours) {
  const title = session ? titleOf(session) : "";
  byId("title").textContent = title || "New conversation";
  document.title = title ? `${title} · Chat` : "Chat";
  byId("assistant-name").textContent = session?.assistant.name ?? "";
  byId("demo-pill").hidden = !demo.includes(assistant);
  byId("archived-pill").hidden = !session?.is_archived;
  byId("temporary-pill").hidden = !session?.is_temporary;
  byId("temporary-note").hidden = !session?.is_temporary;
  if (session?.is_temporary) byId("temporary-note").textContent = temporaryWords(session, hours);
}

/** It was deleted, or is not there: nothing of it stays in sight. */
export function describeGone() {
  describe(null, "", [], 0);
  byId("title").textContent = "No conversation";
}

/** @param {import("./types.js").Session} session @param {number} hours */
function temporaryWords(session, hours) {
  const kept = `Its text is gone ${counted(hours, "hour")} after the last message`;
  const end = new Date(new Date(session.last_active_at).getTime() + hours * 3_600_000);
  const when = session.message_count ? `: ${time(end.toISOString())} as it stands` : "";
  return `Temporary chat. ${kept}${when}. Nothing in it is remembered or found by a search.`;
}
