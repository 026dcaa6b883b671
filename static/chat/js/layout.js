/** Regions that open and close: columns where there is room, drawers where there is not; the theme. */

import { byId } from "./dom.js";
import { read, write } from "./storage.js";

const SESSIONS_COLUMN = matchMedia("(min-width: 900px)");
const DETAILS_COLUMN = matchMedia("(min-width: 1200px)");
const THEMES = ["auto", "light", "dark"];
const THEME_NAMES = { auto: "as the system", light: "light", dark: "dark" };
const THEME_ICONS = { auto: "auto", light: "sun", dark: "moon" };

export class Layout {
  /** @param {(isOpen: boolean) => void} onDetails */
  constructor(onDetails) {
    this.onDetails = onDetails;
    this.app = byId("app");
    this.sessions = byId("sessions");
    this.details = byId("details");
    this.scrim = byId("scrim");
    this.wantsSessions = read("chat:sessions") !== "closed";
    this.wantsDetails = read("chat:details") === "open";
    byId("show-sessions").addEventListener("click", () => this.setSessions(true, true));
    byId("hide-sessions").addEventListener("click", () => this.setSessions(false, true));
    byId("toggle-details").addEventListener("click", () => this.setDetails(this.details.hidden, true));
    byId("hide-details").addEventListener("click", () => this.setDetails(false, true));
    this.scrim.addEventListener("click", () => this.closeDrawers());
    SESSIONS_COLUMN.addEventListener("change", () => this.#arrange());
    DETAILS_COLUMN.addEventListener("change", () => this.#arrange());
  }

  start() {
    this.#arrange();
    bindTheme();
  }

  /** @param {boolean} isOpen @param {boolean} [isByHand] */
  setSessions(isOpen, isByHand = false) {
    this.app.dataset.sessions = isOpen ? "open" : "closed";
    byId("show-sessions").setAttribute("aria-expanded", String(isOpen));
    if (isByHand && SESSIONS_COLUMN.matches) write("chat:sessions", isOpen ? "open" : "closed");
    if (isByHand) byId(isOpen ? "hide-sessions" : "show-sessions").focus();
    this.#drawScrim();
  }

  /** @param {boolean} isOpen @param {boolean} [isByHand] */
  setDetails(isOpen, isByHand = false) {
    this.details.hidden = !isOpen;
    byId("toggle-details").setAttribute("aria-expanded", String(isOpen));
    if (isByHand && DETAILS_COLUMN.matches) write("chat:details", isOpen ? "open" : "closed");
    if (isByHand) byId(isOpen ? "hide-details" : "toggle-details").focus();
    this.onDetails(isOpen);
    this.#drawScrim();
  }

  /** @returns {boolean} whether there was one to close */
  closeDrawers() {
    const isAny = !this.scrim.hidden;
    if (isAny && !SESSIONS_COLUMN.matches) this.setSessions(false);
    if (isAny && !DETAILS_COLUMN.matches) this.setDetails(false);
    return isAny;
  }

  #arrange() {
    this.setSessions(SESSIONS_COLUMN.matches && this.wantsSessions);
    this.setDetails(DETAILS_COLUMN.matches && this.wantsDetails);
  }

  #drawScrim() {
    const isSessionsDrawer = !SESSIONS_COLUMN.matches && this.app.dataset.sessions === "open";
    const isDetailsDrawer = !DETAILS_COLUMN.matches && !this.details.hidden;
    this.scrim.hidden = !isSessionsDrawer && !isDetailsDrawer;
    byId("conversation").inert = !this.scrim.hidden;
  }
}

function bindTheme() {
  const toggle = byId("theme-toggle");
  const draw = () => {
    const theme = currentTheme();
    const words = `Theme: ${THEME_NAMES[theme]}`;
    toggle.title = words;
    toggle.querySelector(".sr-only").textContent = words;
    toggle.querySelector("use").setAttribute("href", `#icon-${THEME_ICONS[theme]}`);
  };
  toggle.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(currentTheme()) + 1) % THEMES.length];
    write("theme", next);
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    draw();
  });
  draw();
}

/** @returns {"auto" | "light" | "dark"} */
function currentTheme() {
  const theme = document.documentElement.dataset.theme;
  return theme === "light" || theme === "dark" ? theme : "auto";
}
