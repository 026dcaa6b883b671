/** Small helpers around the document. Text goes in as text; only `serverHtml` takes HTML. */

/**
 * @param {string} id
 * @returns {any} the element, which the template promises
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`The page has no element with the id ${id}.`);
  return found;
}

/**
 * @param {string} tag
 * @param {Record<string, any>} [properties] `class`, `text`, `on`, `data`; the rest are attributes
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {any}
 */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "text") made.textContent = value;
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name === "on") {
      for (const [event, handler] of Object.entries(value)) made.addEventListener(event, handler);
    } else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

/** @param {string} name of a symbol in chat/icons.html */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/**
 * A bar that is filled to a share; drawn, since the policy forbids style attributes.
 * @param {number} share 0 to 1
 */
export function bar(share) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("aria-hidden", "true");
  const rect = document.createElementNS(SVG, "rect");
  rect.setAttribute("height", "100%");
  rect.setAttribute("width", `${Math.min(100, Math.max(0, share * 100))}%`);
  svg.append(rect);
  return svg;
}

/**
 * @param {string} name icon
 * @param {string} label what it does, for everyone
 * @param {() => void} onClick
 */
export function iconButton(name, label, onClick) {
  return element(
    "button",
    { class: "icon-button", type: "button", title: label, on: { click: onClick } },
    icon(name),
    element("span", { class: "sr-only", text: label }),
  );
}

/**
 * @param {string | null} name icon
 * @param {string} label
 * @param {() => void} onClick
 */
export function textButton(name, label, onClick) {
  const properties = { class: "text-button", type: "button", on: { click: onClick } };
  return element("button", properties, name && icon(name), element("span", { text: label }));
}

/**
 * @param {string} label
 * @param {() => void} onClick
 */
export function button(label, onClick) {
  return element("button", { class: "button", type: "button", text: label, on: { click: onClick } });
}

/**
 * HTML that the server rendered and sanitised, and no other, as nodes.
 * @param {string} html
 */
export function serverHtml(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** @param {string} text */
export async function copyText(text) {
  if (navigator.clipboard && window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  // Plain http on a local network has no clipboard object.
  const area = element("textarea", { class: "sr-only", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (!copied) throw new Error("The browser did not allow copying.");
}

/** @returns {string} a random UUID, also where crypto.randomUUID is missing (plain http) */
export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
