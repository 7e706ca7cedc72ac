/** Canonical JSON of a definition, and its digest. */

import { sha256 } from "@noble/hashes/sha2.js";
import type { Definition } from "./listing.js";
import { own, utf8 } from "./records.js";

/** Members that are floats, by the name of their object: Python writes 1.0 where JavaScript writes 1. */
const FLOATS: Record<string, string[]> = { query: ["epsilon"], domain: ["high", "low"] };

/** Members that give a report its meaning. `other` is one of them if there is one domain of values. */
const MEANING = "name epsilon pane oracle domain attributes solution pairs buckets subset rows table".split(
  " ",
) as (keyof Definition)[];

/** Return the first 8 bytes of SHA-256 over everything that gives a report its meaning. */
export function digestOf(definition: Definition): Uint8Array {
  const meaning: Record<string, unknown> = { format: 1 };
  for (const key of MEANING) if (definition[key] != null) meaning[key] = definition[key];
  const numbers = definition.domain instanceof Object && !Array.isArray(definition.domain);
  if (definition.domain != null && !numbers) meaning["other"] = definition.other;
  return sha256(utf8(canonical(meaning, "query"))).slice(0, 8);
}

/** Return the JSON of a value. `of` is the name of the member that holds it. */
function canonical(value: unknown, of = ""): string {
  if (Array.isArray(value)) return `[${value.map((each) => canonical(each))}]`;
  if (!(value instanceof Object)) return JSON.stringify(value);
  const text = (name: string, each: unknown) =>
    typeof each === "number" && own(FLOATS, of)?.includes(name) ? pythonFloat(each) : canonical(each, name);
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, each]) => `${JSON.stringify(name)}:${text(name, each)}`)}}`;
}

/** Return a float as Python prints it. */
export function pythonFloat(value: number): string {
  const [mantissa, exponent] = value.toExponential().split("e") as [string, string];
  if (value && (+exponent < -4 || +exponent >= 16)) {
    return `${mantissa}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`;
  }
  const text = Object.is(value, -0) ? "-0" : String(value);
  return text.includes(".") ? text : text + ".0";
}
