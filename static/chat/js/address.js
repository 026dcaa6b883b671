/** The address of a conversation, and of a message in it: `/chat/<id>/#12`. */

const SESSION = /^\/chat\/([0-9a-f-]{36})\/$/u;
const MESSAGE = /^#[1-9]\d{0,14}$/u;

/** @param {string} session @param {number | null} [seq] */
export const addressOf = (session, seq) => `/chat/${session}/${seq ? `#${seq}` : ""}`;

/** @param {number | null} seq @returns {import("./found.js").Target | null} */
export const toMessage = (seq) => (seq ? { seq, words: [] } : null);

export function sessionInAddress() {
  return SESSION.exec(location.pathname)?.[1] ?? null;
}

export function targetInAddress() {
  return toMessage(MESSAGE.test(location.hash) ? Number(location.hash.slice(1)) : null);
}

/** @param {string} address @param {boolean} isNew an entry of its own in the browser's history */
export function showAddress(address, isNew) {
  if (location.pathname + location.hash === address) return;
  if (isNew) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}
