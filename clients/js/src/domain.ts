/** Domains: the position of a value among the possible answers. */

import { ReportError } from "./errors.js";
import type { Texts } from "./strings.js";

/** A number of bins between two ends. */
export interface Scale {
  bins: number;
  low: number;
  high: number;
  scale: string;
}

/** Names of values, their number, numbers in bins, or texts that nobody listed. */
export type Domain = string[] | number | Scale | Texts;

/** A name, a position or a number. */
export type Value = string | number;

export const OTHER = "(other)";

export class Positions {
  /** Number of positions, with the one of `(other)`. */
  readonly size: number;
  readonly #names?: Map<string, number>;
  readonly #named: number = 0;

  readonly #other: boolean;
  readonly #edges: number[] | undefined;

  constructor(
    domain: Exclude<Domain, Texts>,
    other: boolean,
    edges?: number[],
  ) {
    this.#other = other;
    this.#edges = edges;
    if (Array.isArray(domain)) {
      // From the last to the first: of two equal names the first one counts.
      this.#names = new Map(domain.map((name, i) => [name.normalize(), i] as const).reverse());
      this.#named = domain.length;
    } else this.#named = typeof domain === "number" ? domain : domain.bins;
    this.size = this.#named + Number(other);
  }

  /** Return the position of a value. */
  of(value: Value): number {
    if (this.#edges) return this.#bin(value);
    const position = this.#find(value);
    if (position !== undefined) return position;
    if (this.#other) return this.#named;
    throw new ReportError(`${JSON.stringify(value)} is not in the domain of ${this.size} values.`);
  }

  #find(value: Value): number | undefined {
    const name = typeof value === "string";
    if (name && value === OTHER && this.#other) return this.#named;
    if (this.#names) {
      if (name) return this.#names.get(value.normalize());
      throw new ReportError(`The answer must be a name, not ${JSON.stringify(value)}.`);
    }
    const number = name && /^(0|[1-9]\d{0,9})$/.test(value) ? +value : value;
    if (!name && !Number.isInteger(number)) throw new ReportError("The answer must be a whole number.");
    return typeof number === "number" && number >= 0 && number < this.#named ? number : undefined;
  }

  /** Return how many inner edges are not above a number. */
  #bin(value: Value): number {
    if (typeof value !== "number" || Number.isNaN(value)) throw new ReportError("The answer must be a number.");
    return this.#edges!.slice(1, -1).filter((edge) => edge <= value).length;
  }
}
