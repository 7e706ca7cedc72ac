/** Local hashing: a report has random rows, and the bucket of the value under these rows, or another bucket. */

import { bitLength } from "./exact.js";
import type { Oracle, Rows } from "./law.js";
import { bytesOf, type Source } from "./source.js";
import { choose, type Table } from "./table.js";

/** Return the oracle with 2^l buckets. A report of sub names so many of them, and `name` is the family of its maps. */
export function hashing(name: string, size: number, l: number, threshold: bigint, members: number, table?: Table, sub?: boolean): Oracle {
  const offset = Number(name === "hr");
  const words = name === "line" ? 1 : name === "short" ? 2 : l;
  const needed = bitLength(BigInt(size - 1 + offset));
  const k = /full|short|line/.test(name) ? Math.max(l + Number(name === "line"), needed) : needed;
  const bound = 1n << BigInt(k);
  const buckets = 2 ** l;
  const head = bitLength(choose(buckets, members) - 1n);
  const bits = head + words * k;
  const width = sub ? Math.ceil(bits / 8) : bits <= 32 ? 4 : 8 * Math.ceil(bits / 64);
  return {
    width,
    table,
    classes: table ? buckets : Math.min(buckets, size),
    rows(source) {
      if (name === "haar") return [haarRow(k, source)];
      if (name === "line") return [1n + source.below(bound - 1n)];
      for (;;) {
        const rows = Array.from({ length: words }, () => source.below(bound));
        if (name !== "full" || independent(rows)) return rows;
      }
    },
    classify(position, rows) {
      const code = BigInt(position + offset);
      if (words < l) return Number(polynomialOf(rows, code, k) & BigInt(buckets - 1));
      return rows.reduce((bucket, row, j) => bucket | (parity(row & code) << j), 0);
    },
    answer(bucket, rows, source) {
      const first = table ? BigInt(table.draw(source)[bucket]!) : subsetOf(bucket, buckets, source.event(threshold), members, source);
      return bytesOf(rows.reduce((sum, row, j) => sum | (row << BigInt(head + j * k)), first), width);
    },
  };
}

/** Return the rank of a random subset of buckets, with the own one in it or not. */
function subsetOf(own: number, item: number, inside: boolean, left: number, source: Source): bigint {
  const members = inside ? [own] : [];
  left -= members.length;
  // The others are numbered without the own bucket.
  for (let rank = source.below(choose(--item, left)); left; left--) {
    while (choose(--item, left) > rank);
    rank -= choose(item, left);
    members.push(item + Number(item >= own));
  }
  return members.sort((a, b) => a - b).reduce((sum, member, i) => sum + choose(member, i + 1), 0n);
}

/** Return a row of level j: (2 u + 1) 2^j. */
function haarRow(k: number, source: Source): bigint {
  const level = source.below(BigInt(k));
  return (2n * source.below(1n << (BigInt(k - 1) - level)) + 1n) << level;
}

/** Whether no xor of some rows is 0. */
function independent(rows: Rows): boolean {
  const sums = new Set([0n]);
  for (const row of rows) for (const sum of [...sums]) sums.add(sum ^ row);
  return sums.size === 2 ** rows.length;
}

/** Polynomials of the fields of 2^k elements, from k = 3: all terms below x^k. */
const POLYNOMIALS = "3 3 5 3 3 1b 3 9 5 9 1b 21 3 2b 9 9 27 9 5 3 21 1b 9 1b 27 3 5 3".split(" ");

/** Return a v + b v^2 in the field of 2^k elements. */
function polynomialOf([a, b = 0n]: Rows, v: bigint, k: number): bigint {
  const polynomial = (1n << BigInt(k)) | BigInt("0x" + POLYNOMIALS[k - 3]);
  const times = (factor: bigint, bits: bigint) => {
    let product = 0n;
    for (; bits; bits >>= 1n) {
      if (bits & 1n) product ^= factor;
      factor <<= 1n;
      if (factor >> BigInt(k)) factor ^= polynomial;
    }
    return product;
  };
  return times(a!, v) ^ times(b, times(v, v));
}

function parity(word: bigint): number {
  let odd = 0;
  for (; word; word &= word - 1n) odd ^= 1;
  return odd;
}
