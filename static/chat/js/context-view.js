/** "What was sent": the parts of one request with their tokens, what was left out, what was used. */

import { bar, element } from "./dom.js";
import { contextLine, counted, leftOutReason, number } from "./format.js";

const KINDS = { prompt: "Instructions of the assistant", history: "Earlier message", input: "Your message" };
const SPEAKERS = { user: "you", assistant: "assistant", system: "system", tool: "tool" };
const PROOFS = {
  ok: "Rebuilt from what is stored, and proven to be exactly what was sent.",
  mismatch: "What is stored is no longer exactly what was sent: something in it was changed or removed.",
  none: "There is no proof for this request any more.",
};

const NO_PASSAGE = {
  nothing_matched: "Nothing in the assistant's documents matched your message, and the model was told so.",
  no_room: "Passages were found, but there was no room for any.",
  failed: "The assistant's documents could not be searched.",
};

/**
 * @typedef {object} Passage
 * @property {string} source
 * @property {number} rank
 * @property {number} tokens
 *
 * @typedef {object} Part
 * @property {string} kind
 * @property {string} role
 * @property {number} tokens
 * @property {number} [seq]
 * @property {number} [images]
 * @property {string} [text]
 *
 * @typedef {{attempt: number, manifest: any, parts: Part[], proof: string}} Context
 */

/** @param {Context} context @returns {import("./types.js").ContextFrame} */
export function frameOf(context) {
  const { manifest } = context;
  /** @type {Record<string, number>} */
  const leftOut = {};
  for (const gap of manifest.left_out) {
    leftOut[gap.reason] = (leftOut[gap.reason] ?? 0) + gap.through - gap.from + 1;
  }
  return {
    turn: "",
    tokens: manifest.tokens,
    budget: manifest.budget,
    window: manifest.window,
    of: manifest.of,
    left_out: leftOut,
    preferences: manifest.preferences,
  };
}

/**
 * @param {import("./types.js").ContextFrame} frame
 * @param {Context} context
 * @returns {Node[]}
 */
export function contextNodes(frame, context) {
  const largest = Math.max(1, ...context.parts.map((part) => part.tokens));
  return [
    element("p", { class: "sent-line", text: contextLine(frame) }),
    element("div", { class: "meter" }, bar(frame.tokens / frame.budget)),
    element("p", { class: "quiet", text: `${share(frame)} of what the model has room for.` }),
    element("h3", { text: "In this order" }),
    element("div", {}, ...context.parts.map((part) => partNode(part, largest))),
    ...leftOutNodes(context.manifest.left_out),
    ...preferenceNodes(frame.preferences),
    ...passageNodes(context.manifest),
    ...schemaNodes(context.manifest.output_schema),
    element("p", { class: "quiet proof", text: PROOFS[/** @type {"ok"} */ (context.proof)] ?? "" }),
  ];
}

/** @param {import("./types.js").ContextFrame} frame */
function share(frame) {
  const percent = (frame.tokens / frame.budget) * 100;
  return percent < 1 ? "Less than 1 %" : `${number(Math.round(percent))} %`;
}

/** @param {Part} part @param {number} largest */
function partNode(part, largest) {
  const kind = KINDS[/** @type {"prompt"} */ (part.kind)] ?? part.kind.replaceAll("_", " ");
  const who = SPEAKERS[/** @type {"user"} */ (part.role)] ?? part.role;
  const place = part.kind === "history" ? ` ${number(part.seq ?? 0)}, ${who}` : "";
  const detail = part.images ? `${place} with ${counted(part.images, "image")}` : place;
  const line = [
    element("span", { class: "part-name" }, kind, element("small", { text: detail })),
    element("span", { class: "part-bar" }, bar(part.tokens / largest)),
    element("span", { class: "part-tokens", title: counted(part.tokens, "token"), text: number(part.tokens) }),
  ];
  if (part.text === undefined) return element("div", { class: "part part-plain" }, ...line);
  return element(
    "details",
    { class: "part" },
    element("summary", {}, ...line),
    element("div", { class: "part-text plain", dir: "auto", text: part.text }),
  );
}

/** @param {{from: number, through: number, reason: string}[]} gaps */
function leftOutNodes(gaps) {
  if (!gaps.length) return [];
  const items = gaps.map((gap) => {
    const which = gap.from === gap.through ? `Message ${gap.from}` : `Messages ${gap.from} to ${gap.through}`;
    return element("li", { text: `${which}: ${leftOutReason(gap.reason)}` });
  });
  return [element("h3", { text: "Left out" }), element("ul", { class: "left-out" }, ...items)];
}

/** @param {{key: string}[]} preferences */
function preferenceNodes(preferences) {
  if (!preferences.length) return [];
  const items = preferences.map((each) => element("li", {}, element("bdi", { text: each.key })));
  return [element("h3", { text: "Preferences used" }), element("ul", { class: "used" }, ...items)];
}

/** @param {{evidence?: string | null, references?: Passage[], references_left_out?: Passage[]}} manifest */
function passageNodes({ evidence, references = [], references_left_out = [] }) {
  if (!evidence) return [];
  const none = NO_PASSAGE[/** @type {"no_room"} */ (evidence)];
  const items = [
    ...references.map((each) => passageItem(each, counted(each.tokens, "token"))),
    ...references_left_out.map((each) => passageItem(each, leftOutReason("budget"))),
  ];
  return [
    element("h3", { text: "Passages from documents" }),
    ...(none ? [element("p", { class: "quiet", text: none })] : []),
    ...(items.length ? [element("ul", { class: "used" }, ...items)] : []),
  ];
}

/** @param {Passage} passage @param {string} detail */
function passageItem(passage, detail) {
  return element(
    "li",
    {},
    element("span", { text: `${passage.rank}. ` }),
    element("bdi", { text: passage.source }),
    element("small", { text: ` ${detail}` }),
  );
}

/** @param {{sent_as: string, tokens: number} | undefined} schema */
function schemaNodes(schema) {
  if (!schema) return [];
  const how = schema.sent_as === "response_format" ? "sent beside the messages" : "part of the instructions";
  const text = `The answer has a prescribed form: ${how}, ${counted(schema.tokens, "token")}.`;
  return [element("p", { class: "quiet", text })];
}
