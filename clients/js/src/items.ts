/** Sets of items: the one item of a person's set that the client answers in a period. */

import { hmac } from "./source.js";

const MOST = 2 ** 16;

/**
 * Return one of a person's items for this period, or null for a blank. The set is filled up with blanks to `most`
 * items, and each is as likely. The key of a device draws the same item in a period.
 */
export function oneOf(items: Iterable<string>, most: number, key: Uint8Array, period: number | bigint): string | null {
  const texts = typeof items === "string" ? [] : [...new Set(items)];
  if (typeof items === "string" || texts.some((item) => typeof item !== "string" || /\p{Surrogate}/u.test(item))) {
    throw new TypeError("items must be a list of whole texts");
  }
  if (!Number.isInteger(most) || most < 1 || most > MOST) {
    throw new TypeError(`most must be a whole number from 1 to ${MOST}, got ${most}`);
  }
  if (!(key instanceof Uint8Array) || key.length !== 32) throw new TypeError("the key must be 32 bytes");
  if (typeof period !== "bigint" && !Number.isSafeInteger(period)) throw new TypeError("period must be a whole number");
  if (BigInt.asIntN(64, BigInt(period)) !== BigInt(period)) throw new TypeError("period must have at most 64 bits");

  const field = new Uint8Array(12);
  field.set(new TextEncoder().encode("item"));
  new DataView(field.buffer).setBigInt64(4, BigInt(period), true);
  const draw = new DataView(hmac(key, field).buffer).getBigUint64(0, true);
  const place = Number((draw * BigInt(Math.max(most, texts.length))) >> 64n);
  return texts.sort(byCodePoint)[place] ?? null;
}

/** Compare as UTF-8 bytes do. JavaScript's own order takes the halves of a character one by one. */
function byCodePoint(first: string, second: string): number {
  const [left, right] = [[...first], [...second]];
  const at = left.findIndex((character, i) => character !== right[i]);
  if (at < 0) return left.length - right.length;
  return at < right.length ? left[at]!.codePointAt(0)! - right[at]!.codePointAt(0)! : 1;
}
