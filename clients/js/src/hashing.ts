/** Local hashing: a report has random rows, and the bucket of the value under these rows, or another bucket. */

import { bitLength } from "./exact.js";
import type { Oracle, Rows } from "./law.js";
import { bytesOf, type Source } from "./source.js";
import type { Table } from "./table.js";

export function hashing(name: string, size: number, l: number, threshold: bigint, table?: Table): Oracle {
  const offset = name === "hr" ? 1 : 0;
  const least = name === "full" ? 2 : name === "short" ? 3 : 1;
  const k = Math.max(least, bitLength(BigInt(size - 1 + offset)));
  const words = name === "short" ? 2 : l;
  const bits = l + words * k;
  const width = bits <= 32 ? 4 : 8 * Math.ceil(bits / 64);
  const buckets = 2 ** l;
  return {
    width,
    table,
    classes: table ? buckets : Math.min(buckets, size),
    rows(source) {
      if (name === "haar") return [haarRow(k, source)];
      for (;;) {
        const rows = Array.from({ length: words }, () => source.below(1n << BigInt(k)));
        if (name !== "full" || independent(rows)) return rows;
      }
    },
    classify(position, rows) {
      const code = BigInt(position + offset);
      const own = name === "short" ? expanded(rows, k, l) : rows;
      return own.reduce((bucket, row, j) => bucket | (parity(row & code) << j), 0);
    },
    answer(bucket, rows, source) {
      if (table) bucket = table.draw(source)[bucket]!;
      else if (!source.event(threshold)) bucket = source.other(bucket, buckets);
      const report = rows.reduce((sum, row, j) => sum | (row << BigInt(l + j * k)), BigInt(bucket));
      return bytesOf(report, width);
    },
  };
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

/** Return the rows of short: bit i of row j is bit j of a x^i xor b x^(2 i). */
function expanded([a, b]: Rows, k: number, l: number): Rows {
  const polynomial = (1n << BigInt(k)) | BigInt("0x" + POLYNOMIALS[k - 3]);
  const timesX = (word: bigint) => (word << 1n) ^ (word >> BigInt(k - 1) ? polynomial : 0n);
  const rows: Rows = Array(l).fill(0n);
  for (let i = 0n; i < k; i++) {
    for (let j = 0; j < l; j++) rows[j]! |= (((a! ^ b!) >> BigInt(j)) & 1n) << i;
    a = timesX(a!);
    b = timesX(timesX(b!));
  }
  return rows;
}

function parity(word: bigint): number {
  let odd = 0;
  for (; word; word &= word - 1n) odd ^= 1;
  return odd;
}
