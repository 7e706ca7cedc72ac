// Changes of controls that leave the unchanged ones alone, so that a user keeps the focus.

import { element } from "./format.js";

/** Replaces the children of a box, if their key is a new one. */
export function swap(box, children, key) {
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  box.replaceChildren(...children);
}

/** Fills a list of choices, each a value and its text, and chooses one. */
export function select(box, options, value) {
  swap(box, options.map(([value, text]) => element("option", { value }, text)), JSON.stringify(options));
  box.value = value;
}
