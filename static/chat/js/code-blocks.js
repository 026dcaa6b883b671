/** Copy buttons for code; the server leaves room for them. */

import { copyText, element } from "./dom.js";

const SHOWN_FOR = 1_600; // ms

/**
 * @param {HTMLElement} trigger a button with a visible label in it
 * @param {() => string} source
 */
export async function copyFrom(trigger, source) {
  const label = /** @type {HTMLElement} */ (trigger.querySelector("span") ?? trigger);
  const before = label.textContent;
  try {
    await copyText(source());
    label.textContent = "Copied";
  } catch (error) {
    console.info("Nothing was copied.", error);
    label.textContent = "Copying was not allowed";
  }
  setTimeout(() => {
    label.textContent = before;
  }, SHOWN_FOR);
}

/** @param {ParentNode} root */
export function addCopyButtons(root) {
  for (const head of root.querySelectorAll(".code-head")) {
    if (head.querySelector("button")) continue;
    const language = head.textContent;
    const trigger = element(
      "button",
      { class: "text-button", type: "button", "aria-label": `Copy the code (${language})` },
      element("span", { text: "Copy" }),
    );
    trigger.addEventListener("click", () => {
      const code = head.parentElement?.querySelector("code");
      copyFrom(trigger, () => code?.textContent ?? "");
    });
    head.append(trigger);
    const pre = head.parentElement?.querySelector("pre");
    pre?.setAttribute("role", "group");
    pre?.setAttribute("aria-label", `Code (${language})`);
  }
}
