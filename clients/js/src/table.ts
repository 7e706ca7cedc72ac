/** Tables: one random permutation of the buckets decides all answers of a round. */

import { exact, exp, ONE, WHOLE } from "./exact.js";
import type { Source } from "./source.js";

const DERANGEMENTS = [1, 0, 1, 2, 9, 44, 265, 1854, 14833];
const STEP = 10n ** 12n;

export class Table {
  readonly #points: number;
  readonly #hi: bigint;
  readonly #lo: bigint;

  /** A permutation of `buckets` has the weight `hi` if at least `points` stay in place, otherwise `lo`. */
  constructor(
    readonly buckets: number,
    points: number,
    hi: bigint,
    lo: bigint,
  ) {
    this.#points = points;
    this.#hi = hi;
    this.#lo = lo;
  }

  /** Whether hi is the largest integer for which one answer is within e, and lo follows from it. */
  fits(e: bigint): boolean {
    const count = this.#weigh(1n, 1n);
    const likely = sum(count.slice(this.#points));
    const low = (hi: bigint) => (WHOLE - hi * likely) / (sum(count) - likely);
    return low(this.#hi) === this.#lo && this.#within(this.#hi, low, e) && !this.#within(this.#hi + 1n, low, e);
  }

  #within(hi: bigint, low: (hi: bigint) => bigint, e: bigint): boolean {
    const weights = this.#weigh(hi, low(hi));
    const own = sum(weights.map((weight, k) => BigInt(k) * weight));
    const rest = BigInt(this.buckets) * sum(weights) - own;
    return low(hi) > 0n && own * BigInt(this.buckets - 1) * ONE <= e * rest;
  }

  /** Return the charge of a round: ln(hi / lo), rounded up to 12 decimals. */
  bound(epsilon: number): number {
    if (this.buckets === 2) return epsilon;
    const covers = (steps: bigint) => exp(steps, STEP) * this.#lo >= this.#hi * ONE;
    let steps = BigInt(Math.round(Math.log(Number(this.#hi) / Number(this.#lo)) * Number(STEP)));
    while (!covers(steps)) steps++;
    while (covers(steps - 1n)) steps--;
    return Number(steps) / Number(STEP);
  }

  /** Return the bucket of each class. */
  draw(source: Source): number[] {
    const g = this.buckets;
    const weights = this.#weigh(this.#hi, this.#lo);
    const total = sum(weights);
    let u: bigint;
    do u = source.integer(8);
    while (u >= total);
    let k = g;
    while (u >= weights[k]!) u -= weights[k--]!;
    const table = range(g);
    if (k === g) return table;
    const order = range(g);
    for (let i = 0; i < k; i++) swap(order, i, i + Number(source.below(BigInt(g - i))));
    const rest = order.slice(k).sort((a, b) => a - b);
    let buckets: number[];
    do {
      buckets = [...rest];
      for (let i = rest.length - 1; i > 0; i--) swap(buckets, i, Number(source.below(BigInt(i + 1))));
    } while (buckets.some((bucket, i) => bucket === rest[i]));
    rest.forEach((place, i) => (table[place] = buckets[i]!));
    return table;
  }

  /** Return the weight of all permutations with k points in place, for each k. */
  #weigh(hi: bigint, lo: bigint): bigint[] {
    const g = this.buckets;
    return range(g + 1).map((k) => choose(g, k) * BigInt(DERANGEMENTS[g - k]!) * (k >= this.#points ? hi : lo));
  }
}

/** Most buckets of a table. */
export const MOST = DERANGEMENTS.length - 1;

const sum = (integers: bigint[]) => integers.reduce((a, b) => a + b, 0n);
const range = (count: number) => [...Array(count).keys()];
/** Return the number of subsets of k of n items. */
export const choose = (n: number, k: number): bigint => (k ? (choose(n - 1, k - 1) * BigInt(n)) / BigInt(k) : 1n);

function swap(items: number[], i: number, j: number): void {
  [items[i], items[j]] = [items[j]!, items[i]!];
}
