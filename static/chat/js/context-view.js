/** "What was sent": the parts of one request with their tokens, what was left out, what was used. */

import { bar, element } from "./dom.js";
import { contextLine, counted, leftOutReason, number } from "./format.js";

const KINDS = {
  prompt: "Instructions of the assistant",
  history: "Earlier message",
  input: "Your message",
  running: "This turn",
};
const SPEAKERS = { user: "you", assistant: "assistant", system: "system", tool: "tool" };
const MARKS = { cut_off: "cut off", shortened: "shortened" };
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
 * @property {string} [mark]
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
    summary: manifest.summary ?? null,
    digest: Boolean(manifest.digest),
  };
}

/**
 * @param {import("./types.js").ContextFrame} frame
 * @param {Context} context
 * @param {Node[]} used rows of the preferences that went along
 * @returns {Node[]}
 */
export function contextNodes(frame, context, used) {
  const largest = Math.max(1, ...context.parts.map((part) => part.tokens));
  return [
    element("p", { class: "sent-line", text: contextLine(frame) }),
    element("div", { class: "meter" }, bar(frame.tokens / frame.budget)),
    element("p", { class: "quiet", text: `${share(frame)} of what the model has room for.` }),
    element("h3", { text: "In this order" }),
    element("div", {}, ...context.parts.map((part) => partNode(part, largest))),
    ...leftOutNodes(context.manifest),
    ...memoryNodes(context.manifest),
    ...listNodes("Preferences used", "used", used),
    ...toolNodes(context.manifest.tools),
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
  const speaker = part.kind === "running" ? `, ${part.role === "tool" ? "result of a tool" : who}` : place;
  const images = part.images ? ` with ${counted(part.images, "image")}` : "";
  const mark = part.mark ? `, ${MARKS[/** @type {"cut_off"} */ (part.mark)] ?? part.mark}` : "";
  const detail = `${speaker}${images}${mark}`;
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

/** @param {string} title @param {string} name @param {Node[]} items */
function listNodes(title, name, items) {
  return items.length ? [element("h3", { text: title }), element("ul", { class: name }, ...items)] : [];
}

/** @param {any} manifest */
function leftOutNodes(manifest) {
  const gaps = manifest.left_out.map((/** @type {{from: number, through: number, reason: string}} */ gap) => {
    const which = gap.from === gap.through ? `Message ${gap.from}` : `Messages ${gap.from} to ${gap.through}`;
    return element("li", { text: `${which}: ${leftOutReason(gap.reason)}` });
  });
  const preferences = (manifest.preferences_left_out ?? []).map((/** @type {{key: string, reason: string}} */ each) =>
    element("li", {}, "Preference ", element("bdi", { text: each.key }), `: ${leftOutReason(each.reason)}`),
  );
  const blocks = [
    manifest.summary_left_out && `The summary: ${leftOutReason(manifest.summary_left_out)}`,
    manifest.digest_left_out && `What is known of you: ${leftOutReason(manifest.digest_left_out)}`,
  ].filter(Boolean);
  const items = [...gaps, ...preferences, ...blocks.map((text) => element("li", { text }))];
  return listNodes("Left out", "left-out", items);
}

/** Summary and digest, which stand at the head of the first message. @param {any} manifest */
function memoryNodes({ summary, digest }) {
  const items = [];
  if (summary) {
    const { covers_from: from, covers_through: through, version, tokens } = summary;
    const which = `Summary of messages ${number(from)} to ${number(through)}`;
    items.push(element("li", {}, which, small(`version ${number(version)}, ${counted(tokens, "token")}`)));
  }
  if (digest) {
    const from = `from ${counted(digest.sources.length, "conversation")}, ${counted(digest.tokens, "token")}`;
    items.push(element("li", {}, "What is known of you from earlier conversations", small(from)));
  }
  return listNodes("At the head of the first message", "used", items);
}

/** The definitions of tools, which go beside the messages. @param {{names: string[], tokens: number} | undefined} tools */
function toolNodes(tools) {
  if (!tools?.names.length) return [];
  const items = tools.names.map((name) => element("li", {}, element("bdi", { text: name })));
  return listNodes(`Tools that were offered, ${counted(tools.tokens, "token")}`, "used used-tools", items);
}

/** @param {string} text */
const small = (text) => element("small", { text: ` ${text}` });

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
