/** The tools that an answer used: a chip for each call, which opens to what was asked and answered. */

import { element } from "./dom.js";

const WORDS = {
  remember: ["Writing into memory", "Wrote into memory"],
  forget: ["Removing from memory", "Removed from memory"],
  search_history: ["Searching earlier messages", "Searched earlier messages"],
  current_time: ["Looking at the clock", "Looked at the clock"],
};
const STATES = { running: "running", done: "done", failed: "failed", open: "no result" };
const BETWEEN = "\n\n"; // what stands between the texts of two rounds of a turn

/**
 * What is known of a call. `open`: its turn ended before a result came.
 * @typedef {object} ToolState
 * @property {string} name
 * @property {"running" | "done" | "failed" | "open"} status
 * @property {string} arguments JSON text, perhaps cut
 * @property {string | null} result
 */

/** @param {string} name @param {boolean} isDone else it runs, or it failed */
export function toolWords(name, isDone) {
  const words = WORDS[/** @type {"forget"} */ (name)] ?? [`Using ${name}`, `Used ${name}`];
  return words[isDone ? 1 : 0];
}

/** The chips of one turn by the id of their call; a chip that stands open stays open when it changes. */
export class ToolChips {
  constructor() {
    /** @type {Map<string, {element: HTMLElement, update: (state: ToolState) => void, status: string}>} */
    this.chips = new Map();
  }

  /** @param {string} call */
  has(call) {
    return this.chips.has(call);
  }

  get isRunning() {
    return [...this.chips.values()].some((chip) => chip.status === "running");
  }

  /** @param {string} call @param {ToolState} state @returns {HTMLElement} its chip */
  note(call, state) {
    const chip = this.chips.get(call) ?? makeChip();
    this.chips.set(call, chip);
    chip.update(state);
    chip.status = state.status;
    return chip.element;
  }
}

export function toolGroup() {
  return element("ul", { class: "tools", "aria-label": "Tools that were used" });
}

function makeChip() {
  const label = element("bdi");
  const state = element("span", { class: "tool-state" });
  const asked = element("pre", { class: "tool-text", dir: "auto", tabindex: 0, "aria-label": "Asked for" });
  const answered = element("pre", { class: "tool-text", dir: "auto", tabindex: 0, "aria-label": "Result" });
  const askedHead = element("p", { class: "tool-head", text: "Asked for" });
  const head = element("p", { class: "tool-head" });
  const box = element(
    "details",
    { class: "tool" },
    element("summary", {}, element("span", { class: "tool-mark", "aria-hidden": "true" }), label, state),
    askedHead,
    asked,
    head,
    answered,
  );
  const update = (/** @type {ToolState} */ now) => {
    box.dataset.status = now.status;
    label.textContent = toolWords(now.name, now.status === "done");
    state.textContent = STATES[now.status];
    asked.textContent = pretty(now.arguments);
    askedHead.hidden = asked.hidden = ["", "{}"].includes(asked.textContent);
    head.textContent = now.status === "failed" ? "Failed" : "Result";
    head.hidden = answered.hidden = now.result === null;
    answered.textContent = now.result ?? "";
  };
  return { element: element("li", {}, box), update, status: "" };
}

/** @param {string} text JSON that may have been cut */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// --- Out of rows ----------------------------------------------------------------------------------

/** @param {import("./types.js").Message} row */
export const callsOf = (row) => row.tool_calls ?? [];

/**
 * What the rows of a turn say about each of its calls.
 * @param {import("./types.js").Message[]} rows
 * @returns {Map<string, ToolState>}
 */
export function statesOf(rows) {
  const isRunning = rows.some((row) => row.turn?.status === "running");
  /** @type {Map<string, ToolState>} */
  const states = new Map();
  for (const row of rows) {
    for (const call of callsOf(row)) {
      const status = isRunning ? "running" : "open";
      states.set(call.id, { name: call.name, status, arguments: call.arguments, result: null });
    }
    if (row.role !== "tool" || !row.tool_call_id) continue;
    const asked = states.get(row.tool_call_id);
    states.set(row.tool_call_id, {
      name: asked?.name ?? row.name ?? "a tool",
      status: row.is_error ? "failed" : "done",
      arguments: asked?.arguments ?? "",
      result: row.content,
    });
  }
  return states;
}

/** The whole text of a turn. @param {import("./types.js").Message[]} rows */
export function textOf(rows) {
  const texts = rows.filter((row) => row.role === "assistant").map((row) => row.content ?? "");
  return texts.filter(Boolean).join(BETWEEN);
}
