// Names that strangers have chosen, as text that changes nothing around it.

import { element } from "../format.js";

const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}]/gu;
const JOINER = "\u200d"; // a part of emojis
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
const [ISOLATE, END] = ["\u2068", "\u2069"];

/** Returns a character as its code, such as \u{202e}. */
const code = (symbol) => (symbol === JOINER ? symbol : `\\u{${symbol.codePointAt(0).toString(16)}}`);

/** Returns a name without control characters and other invisible ones. Their codes take their places. */
export const plainName = (name) => (name === "" ? "(empty)" : name.replace(INVISIBLE, code));

/** Returns a name as a part of a sentence. A name that is written from right to left moves no other words. */
export function nameInText(name) {
  const text = plainName(name);
  return RIGHT_TO_LEFT.test(text) ? `${ISOLATE}${text}${END}` : text;
}

/** Returns an element with a name. The codes of invisible characters look different from its letters. */
export function nameElement(name) {
  const box = element("bdi", { class: "string" });
  let start = 0;
  for (const match of name.matchAll(INVISIBLE)) {
    if (match[0] === JOINER) continue;
    box.append(name.slice(start, match.index), element("i", { class: "code" }, code(match[0])));
    start = match.index + match[0].length;
  }
  box.append(name.slice(start));
  if (name === "") box.append(element("i", { class: "code" }, "(empty)"));
  return box;
}
