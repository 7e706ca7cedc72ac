// A simulated crowd and a board in the page, for a page without a server. Nothing leaves the browser.

import { randomBlocks } from "./entropy.js";

const Z = 1.959963984540054; // the quantile of an interval of 95%
const START = 1500; // people who have answered before the page opens
const TURN = 30; // people who answer in a second

/** Returns share and interval of each value: the formulas of docs/estimates.md, for randomised response and dense counts. */
export function estimate(counts, n, p, q) {
  const a = (q * (1 - q)) / (n * (p - q) ** 2);
  const b = (1 - p - q) / (n * (p - q));
  return counts.map((count) => {
    const share = (count / n - q) / (p - q);
    const half = Z * Math.sqrt(Math.max(a + b * share + (Z * Z * b * b) / 4, 0));
    const centre = share + (Z * Z * b) / 2;
    return { share, low: Math.min(Math.max(centre - half, 0), 1), high: Math.min(Math.max(centre + half, 0), 1) };
  });
}

export class SimulatedBoard {
  #query;
  #oracle;
  #weights;
  #take = randomBlocks();
  #counts;
  #people;
  #own = 0;

  /** `weights` has the number of people with each value, of a small part of the crowd. */
  constructor(query, oracle, weights) {
    this.#query = query;
    this.#oracle = oracle;
    this.#weights = weights;
    this.#counts = weights.map(() => 0);
    this.#people = weights.map(() => 0);
    this.#answer(START);
  }

  /** Counts reports, as a gateway and a worker would. */
  async send({ frame, values }) {
    const reports = frame.subarray(40);
    for (const report of reports) this.#counts[report] += 1;
    for (const value of values) this.#people[value] += 1;
    this.#own += values.length;
    return { note: "In this page no server listens. The bytes stay here, and the simulated board counts them." };
  }

  /** Returns the present estimate. Each call is a second in the life of the crowd. */
  async read() {
    this.#answer(TURN);
    const n = this.#people.reduce((sum, count) => sum + count, 0);
    const rows = estimate(this.#counts, n, this.#oracle.p, this.#oracle.q);
    const values = rows.map((row, at) => ({ ...row, value: this.#query.domain[at], truth: this.#people[at] / n }));
    return { n, own: this.#own, values };
  }

  #answer(people) {
    const total = this.#weights.reduce((sum, weight) => sum + weight, 0);
    for (let i = 0; i < people; i++) {
      let place = Math.random() * total; // the true answers of a simulation are no secret
      const value = this.#weights.findIndex((weight) => (place -= weight) < 0);
      this.#people[value] += 1;
      this.#counts[this.#oracle.answer(value, this.#take).report] += 1;
    }
  }
}
