/** What was removed: receipts of the server, with the counts by place. */

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
  context_parts: "texts of stored requests",
  context_records: "stored requests",
  derived_texts: "notes of where words were copied to",
  digests: "texts of what is known of you",
  search_entries: "entries of the search",
  snapshots: "remembered windows",
};

/** @param {import("./types.js").Receipt} receipt */
const kindOf = ({ kind }) => KINDS[/** @type {"session"} */ (kind)] ?? kind.replaceAll("_", " ");

/** @param {import("./types.js").Receipt} receipt */
export function isPending(receipt) {
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
export function receiptNodes(receipt) {
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
  byId("receipt-body").replaceChildren(...receiptNodes(receipt));
  await openDialog("receipt-dialog");
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
