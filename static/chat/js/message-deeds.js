/** What a person does to a message over REST: delete it with its answer, rate an answer. */

import { askComment, confirm } from "./dialogs.js";
import { showReceipt } from "./receipts.js";

const QUOTED = 200; // characters of a message that a question about it shows

/**
 * @typedef {object} DeedDependencies
 * @property {string} session
 * @property {import("./api.js").Api} api
 * @property {import("./message-list.js").MessageList} list
 * @property {import("./preference-store.js").PreferenceStore} store
 * @property {() => void} onDrawn
 * @property {(text: string) => void} onNotice
 */

/** @param {DeedDependencies} need @param {import("./types.js").Message} message */
export async function deletePair(need, message) {
  const text = (message.content ?? "").slice(0, QUOTED);
  const answer = await confirm({
    title: "Delete this message and its answer?",
    text: text ? `“${text}${text.length < (message.content ?? "").length ? "…" : ""}”` : "A message without text",
    more: "Both go for good, and so does what was made of them: their place in summaries, stored requests and the search.",
    action: "Delete",
  });
  if (!answer) return;
  try {
    const gone = await need.api.delete(`sessions/${need.session}/messages/${message.id}/`);
    need.list.dropPair(message.id); // and whatever else changes is read again, as session.updated says
    need.onDrawn();
    await Promise.all([need.store.load(), showReceipt(gone.receipt)]);
  } catch (error) {
    need.onNotice(`It was not deleted: ${/** @type {Error} */ (error).message}`);
  }
}

/**
 * @param {DeedDependencies} need
 * @param {import("./types.js").Turn} turn
 * @param {1 | -1} value the same again: take it back
 */
export async function rate(need, turn, value) {
  const isTakenBack = turn.feedback === value;
  const comment = isTakenBack || value > 0 ? "" : await askComment();
  if (comment === null) return;
  const path = `sessions/${need.session}/turns/${turn.id}/feedback/`;
  try {
    if (isTakenBack) await need.api.delete(path);
    else await need.api.put(path, { value, ...(comment && { comment }) });
    need.list.rate(turn.id, isTakenBack ? null : value);
  } catch (error) {
    need.onNotice(`Your rating was not kept: ${/** @type {Error} */ (error).message}`);
  }
}
