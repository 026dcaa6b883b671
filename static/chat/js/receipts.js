/** What was removed: receipts of the server, with the counts by place. */

import { Api } from "./api.js";
import { openDialog } from "./dialogs.js";
import { byId, element, textButton } from "./dom.js";
import { counted, fullTime, number, time } from "./format.js";

const KINDS = {
  session: "A conversation",
  message: "A message and its answer",
  preference: "Something that was remembered",
  memory: "What was remembered of you",
  user: "Everything about you",
};

const PLACES = {
  accessattempt: "attempts to sign in",
  accessfailurelog: "attempts to sign in that failed",
  accesslog: "sign-ins",
  admin_log: "entries of the administration's log",
  audit_events: "entries of the log that named you",
  audit_reasons: "reasons in the log",
  browser_sessions: "browsers that were signed in",
  cache: "texts kept for a short time",
  context_parts: "texts of stored requests",
  context_records: "stored requests",
  derived_texts: "notes of where words were copied to",
  digests: "texts of what is known of you",
  exports: "exports that held it",
  follow_ups: "tasks that were still to be done",
  forgotten_preferences: "marks of what you had deleted before",
  manifests: "names in lists of what was sent",
  preferences: "things that were remembered",
  proofs: "proofs of what was sent",
  quotes: "quotations of what you said",
  redacted_messages: "messages elsewhere that quoted it",
  review_notes: "notes of reviewers",
  review_scores: "scores of reviewers",
  review_tags: "labels of reviewers",
  saved_filters: "saved searches that named you",
  search_entries: "entries of the search",
  sessions: "conversations",
  snapshots: "remembered windows",
  turns: "runs of the model",
};

const AGAIN_MS = 2000;

/** @param {import("./types.js").Receipt} receipt */
const kindOf = ({ kind }) => KINDS[/** @type {"session"} */ (kind)] ?? kind.replaceAll("_", " ");

/** @param {import("./types.js").Receipt} receipt */
function isPending(receipt) {
  return !receipt.is_complete;
}

/** @param {import("./types.js").Receipt} receipt */
function stateOf(receipt) {
  if (!isPending(receipt)) return "Everything is gone.";
  return `${counted(receipt.pending, "place")} still to be cleaned; it goes on by itself.`;
}

/** @param {string} place */
const placeOf = (place) => PLACES[/** @type {"digests"} */ (place)] ?? place.replaceAll(/[_.]/gu, " ");

/** @param {import("./types.js").Receipt} receipt @returns {Node[]} */
function receiptNodes(receipt) {
  const counts = Object.entries(receipt.counts).filter(([, count]) => count);
  return [
    element("p", { class: "receipt-state", "data-pending": isPending(receipt), text: stateOf(receipt) }),
    element(
      "dl",
      { class: "receipt-counts" },
      ...counts.flatMap(([place, count]) => [
        element("dt", { text: placeOf(place) }),
        element("dd", { text: number(count) }),
      ]),
    ),
    element("p", { class: "quiet", text: `${kindOf(receipt)}, ${fullTime(receipt.created_at)}` }),
  ];
}

/** @param {import("./types.js").Receipt | null | undefined} receipt */
export async function showReceipt(receipt) {
  if (!receipt) return;
  const body = byId("receipt-body");
  body.replaceChildren(...receiptNodes(receipt));
  const stop = isPending(receipt) ? keepAsking(receipt.id, (now) => body.replaceChildren(...receiptNodes(now))) : null;
  await openDialog("receipt-dialog");
  stop?.();
}

/**
 * Ask the server how far it is until everything is gone; what calls it off is returned.
 * @param {string} id @param {(receipt: import("./types.js").Receipt) => void} onNews
 */
function keepAsking(id, onNews) {
  const api = new Api(() => location.reload());
  let isOver = false;
  const stop = () => {
    isOver = true;
    clearInterval(timer);
  };
  const timer = setInterval(async () => {
    try {
      const now = await api.get(`receipts/${id}/`);
      if (!isOver) onNews(now);
      if (!isPending(now)) stop();
    } catch (error) {
      console.info("A receipt could not be read again.", error);
    }
  }, AGAIN_MS);
  return stop;
}

/** @param {import("./types.js").Receipt[]} receipts @param {(id: string) => void} onShow */
export function receiptList(receipts, onShow) {
  return receipts.map((receipt) =>
    element(
      "li",
      {},
      textButton(null, kindOf(receipt), () => onShow(receipt.id)),
      element("small", { class: "quiet", text: ` ${time(receipt.created_at)}${isPending(receipt) ? ", not finished" : ""}` }),
    ),
  );
}
