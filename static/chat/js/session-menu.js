/** What can be done with a conversation: the button on its row, and the menu that it opens. */

import { element, icon, iconButton } from "./dom.js";

/**
 * @typedef {object} Deed
 * @property {string} name
 * @property {string} icon
 * @property {string} label
 * @property {() => void} run
 */

/**
 * @param {string} id of the session
 * @param {string} title
 * @param {boolean} isOpen
 * @param {() => void} onToggle
 */
export function menuButton(id, title, isOpen, onToggle) {
  const made = iconButton("more", `Options of ${title}`, onToggle);
  made.dataset.focus = `menu-${id}`;
  made.setAttribute("aria-haspopup", "menu");
  made.setAttribute("aria-expanded", String(isOpen));
  return made;
}

/**
 * @param {string} id of the session
 * @param {string} title
 * @param {Deed[]} deeds
 * @param {() => void} onClose
 */
export function sessionMenu(id, title, deeds, onClose) {
  const items = deeds.map((deed) =>
    element(
      "button",
      {
        class: "menu-item",
        type: "button",
        role: "menuitem",
        tabindex: "-1",
        data: { deed: deed.name, focus: `${deed.name}-${id}` },
        on: { click: deed.run },
      },
      icon(deed.icon),
      element("span", { text: deed.label }),
    ),
  );
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const next = stop(event.key, items.indexOf(document.activeElement), items.length);
    if (next !== null) items[next].focus();
    else if (event.key === "Escape" || event.key === "Tab") onClose();
    else return;
    event.preventDefault();
    event.stopPropagation(); // Escape stops no answer, and closes no drawer
  };
  return element(
    "div",
    { class: "session-menu", role: "menu", tabindex: "-1", "aria-label": title, on: { keydown: onKey } },
    ...items,
  );
}

/** Where a key leads among the items, round and round. @param {string} key @param {number} at @param {number} count */
function stop(key, at, count) {
  if (key === "ArrowDown") return (at + 1) % count;
  if (key === "ArrowUp") return (at - 1 + count) % count;
  if (key === "Home") return 0;
  return key === "End" ? count - 1 : null;
}
