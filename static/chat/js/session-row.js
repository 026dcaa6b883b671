/** One conversation in the list: its name, what it is doing, and its menu. */

import { addressOf } from "./address.js";
import { element } from "./dom.js";
import { fullTime } from "./format.js";
import { menuButton, sessionMenu } from "./session-menu.js";

const UNTITLED = "New conversation";

/** @param {import("./types.js").Session} session */
export const titleOf = (session) => session.title || UNTITLED;

/**
 * @param {import("./types.js").Session} session
 * @param {object} how
 * @param {boolean} how.isCurrent it is the one that is open
 * @param {import("./session-menu.js").Deed[] | null} how.deeds of its menu; null: it is closed
 * @param {() => void} how.onOpen
 * @param {() => void} how.onToggle the menu
 * @param {() => void} how.onClose the menu
 */
export function sessionRow(session, { isCurrent, deeds, onOpen, onToggle, onClose }) {
  const { id } = session;
  const title = titleOf(session);
  const onClick = (/** @type {MouseEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    onOpen();
  };
  const link = element(
    "a",
    {
      class: "session-link",
      href: addressOf(id),
      title: `${title}\n${fullTime(session.last_active_at)}`,
      "aria-current": isCurrent && "page",
      "data-focus": `open-${id}`,
      dir: "auto",
      on: { click: onClick },
    },
    title,
  );
  const row = element(
    "li",
    { class: "session", data: { id } },
    link,
    session.is_temporary && element("span", { class: "pill", text: "Temporary" }),
    session.running && element("span", { class: "session-busy", title: "An answer is being written" }),
    element("span", { class: "session-tools" }, menuButton(id, title, Boolean(deeds), onToggle)),
    deeds && sessionMenu(id, title, deeds, onClose),
  );
  row.toggleAttribute("data-current", isCurrent);
  row.toggleAttribute("data-menu", Boolean(deeds));
  row.toggleAttribute("data-untitled", !session.title);
  row.toggleAttribute("data-temporary", session.is_temporary);
  return row;
}
