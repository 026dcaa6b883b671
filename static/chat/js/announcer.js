/** Tells screen readers what happens: sentences, not tokens, and not more often than they can speak. */

const EVERY = 2_500; // ms between two announcements of an answer's text
const SENTENCE = /[.!?…。！？；]["'”’)\]]*(?=\s|$)|[。！？；]|\n/gu;
const MARKUP = /[`*_#>|~]+|\$\$?|^\s*[-+]\s+/gmu;

export class Announcer {
  /** @param {HTMLElement} region with aria-live */
  constructor(region) {
    this.region = region;
    this.waiting = "";
    this.last = 0;
  }

  /** @param {string} text */
  say(text) {
    const line = document.createElement("p");
    line.textContent = text;
    this.region.append(line);
    while (this.region.childElementCount > 4) this.region.firstElementChild?.remove();
  }

  begin() {
    this.waiting = "";
    this.say("The answer begins.");
  }

  /** Text of the answer that runs. @param {string} text */
  hear(text) {
    this.waiting += text;
    if (Date.now() - this.last < EVERY) return;
    const ends = [...this.waiting.matchAll(SENTENCE)];
    const end = ends.at(-1);
    if (!end) return;
    const cut = end.index + end[0].length;
    this.#speak(this.waiting.slice(0, cut));
    this.waiting = this.waiting.slice(cut);
  }

  /** @param {string} how the answer ended */
  end(how) {
    this.#speak(this.waiting);
    this.waiting = "";
    this.say(how);
  }

  /** @param {string} text */
  #speak(text) {
    const words = text.replace(MARKUP, " ").replace(/\s+/gu, " ").trim();
    this.last = Date.now();
    if (words) this.say(words);
  }
}
