/** The definition of a query, as a gateway lists it, checked before a client uses it. */

import { digestOf } from "./canonical.js";
import { Positions, type Domain, type Scale, type Value } from "./domain.js";
import { checkEdges } from "./edges.js";
import { NotAllowed, ReportError } from "./errors.js";
import { exact, nearest, rounded } from "./exact.js";
import type { Oracle } from "./law.js";
import { isWhole } from "./limits.js";
import type { Definition, Each } from "./listing.js";
import { oracle, type Thresholds } from "./oracle.js";
import { comparePins, same, type Pinned } from "./pins.js";
import { hex, own as member } from "./records.js";
import { Strings, type Texts } from "./strings.js";

/** One question of a query. */
export interface Part {
  name: string;
  positions: Positions;
  oracle: Oracle;
}

/** The answer to a query, or an answer to each attribute. */
export type Answer = Value | Record<string, Value>;

/** A charge: so many times an epsilon. */
export interface Charge {
  epsilon: number;
  times: number;
}

const MOST_EPSILON = 16;

/** A query that passed all checks. */
export class Query {
  readonly digest: Uint8Array;
  readonly parts: Part[];
  /** Numbers of the two attributes of each pair. The parts of pairs follow the other parts, in this order. */
  readonly pairs: [number, number][];
  /** The strings, if the answer is a text that nobody listed. Then the only part gives the oracle of all their parts. */
  readonly strings: Strings | undefined;
  /** The charge of the first answer of a round, or of each fresh answer. */
  readonly charge: Charge;

  constructor(
    readonly definition: Definition,
    pinned: Pinned = {},
  ) {
    const { name, attributes, solution } = definition;
    checkNumbers(definition);
    if (!["life", "once", "fresh"].includes(definition.answers)) {
      throw new NotAllowed(`This client has no answers ${definition.answers}. Update it.`);
    }
    if (attributes && solution !== "smp" && solution !== "spl") {
      throw new NotAllowed(`This client has no solution ${solution}. Update it.`);
    }
    this.digest = digestOf(definition);
    if (hex(this.digest) !== definition.digest) {
      throw new NotAllowed(`The digest of ${name} does not fit its definition.`);
    }
    this.strings = areTexts(definition.domain) ? new Strings(definition.domain, this.digest) : undefined;
    this.parts = attributes ? Object.keys(attributes).sort().map((key) => this.#part(key)) : [this.#part()];
    const names = this.parts.map((part) => part.name);
    this.pairs = (definition.pairs ?? []).map(([first, second]) => [names.indexOf(first), names.indexOf(second)]);
    this.parts.push(...this.pairs.map((pair) => this.#pair(...pair)));
    this.charge = this.#charged();
    const widths = this.parts.map((part) => part.oracle.width);
    const width = solution === "smp" || this.strings ? 2 + Math.max(...widths) : widths.reduce((a, b) => a + b);
    if (width !== definition.width) throw new NotAllowed(`The width of ${name} does not fit its definition.`);
    comparePins(pinned, definition, nearest(amountOf(this.charge)));
  }

  /** Return the positions of an answer, one for each attribute, without the pairs. Of a text they are its chunks. */
  positionsOf(answer: Answer): number[] {
    if (this.strings) {
      if (typeof answer !== "string") throw new ReportError("The answer must be a text.");
      return this.strings.numbers(answer);
    }
    if (!this.definition.attributes) return [this.parts[0]!.positions.of(answer as Value)];
    const singles = this.parts.slice(0, this.parts.length - this.pairs.length);
    const names = singles.map((part) => part.name);
    if (!(answer instanceof Object) || !same(Object.keys(answer).sort(), names)) {
      throw new ReportError(`The answer must have a value for each of ${names.join(", ")}.`);
    }
    return singles.map((part) => part.positions.of(answer[part.name]!));
  }

  /** Return the number of a group, 0 if the query does not list it. */
  groupOf(value: string | undefined): number {
    return Object.values(this.definition.groups ?? {}).flat().indexOf(value!) + 1;
  }

  /** Return the positions of all parts: those of an answer, and those of the pairs. */
  withPairs(positions: number[]): number[] {
    const ofPair = ([first, second]: [number, number]) =>
      positions[first]! * this.parts[second]!.positions.size + positions[second]!;
    return [...positions, ...this.pairs.map(ofPair)];
  }

  #pair(first: number, second: number): Part {
    const [a, b] = [this.parts[first], this.parts[second]];
    if (!a || !b) throw new NotAllowed(`A pair of ${this.definition.name} is not valid.`);
    const name = `${a.name}*${b.name}`;
    const positions = new Positions(a.positions.size * b.positions.size, false);
    return { name, positions, oracle: this.#oracle(name, positions.size) };
  }

  #part(attribute?: string): Part {
    const { definition } = this;
    const { domain, other } = attribute === undefined ? definition : definition.attributes![attribute]!;
    const known = areTexts(domain) ? 2 ** domain.cells : domain!;
    const edges = own(definition.edges as Each<number[]>, attribute);
    if (isScale(known)) checkEdges(known, edges);
    else if (edges) throw new NotAllowed("The edges of the bins are not those of the scale.");
    const positions = new Positions(known, other ?? false, edges);
    return { name: attribute ?? "", positions, oracle: this.#oracle(attribute, positions.size) };
  }

  #oracle(attribute: string | undefined, size: number): Oracle {
    const { definition } = this;
    const thresholds = own(definition.thresholds as Each<Thresholds>, attribute)!;
    const t = own(definition.table, attribute);
    return oracle(own(definition.oracle, attribute)!, this.#epsilonOfPart(), size, thresholds, t, definition);
  }

  /** Return the epsilon of a part: spl divides it, and rounds it down. */
  #epsilonOfPart(): number {
    const { epsilon, solution, attributes } = this.definition;
    return solution === "spl" ? rounded(exact(epsilon) / BigInt(Object.keys(attributes!).length), false) : epsilon;
  }

  #charged(): Charge {
    const { answers, epsilon, solution } = this.definition;
    if (answers !== "life") return { epsilon, times: 1 };
    const own = this.#epsilonOfPart();
    const charges = this.parts.map(({ oracle: { table, classes } }) =>
      table ? { epsilon: table.bound(own), times: 1 } : { epsilon: own, times: classes },
    );
    if (solution !== "spl") return charges.reduce((a, b) => (amountOf(a) < amountOf(b) ? b : a));
    // Without tables all have one epsilon, and their sum is exact.
    if (!this.parts.some((part) => part.oracle.table)) {
      return { epsilon: own, times: charges.map((charge) => charge.times).reduce((a, b) => a + b) };
    }
    return { epsilon: rounded(charges.map(amountOf).reduce((a, b) => a + b), true), times: 1 };
  }
}

const areTexts = (domain?: Domain): domain is Texts => (domain as Texts | undefined)?.discover !== undefined;

const isScale = (domain: unknown): domain is Scale => domain instanceof Object && !Array.isArray(domain);

/** Refuse numbers that are not in their range: a charge, a round or a period would follow from them. */
function checkNumbers(definition: Definition): void {
  const { name, epsilon, budget, renew, period, pane } = definition;
  const isIn = (value: unknown, most: number) => typeof value === "number" && value > 0 && value <= most;
  const checks = {
    epsilon: isIn(epsilon, MOST_EPSILON),
    budget: isIn(budget, Number.MAX_VALUE),
    renew: renew == null || isWhole(renew, 1),
    period: isWhole(period, 1),
    pane: isWhole(pane, 1),
  };
  for (const [key, isGood] of Object.entries(checks)) {
    if (!isGood) throw new NotAllowed(`${key} of ${name} must not be ${JSON.stringify(definition[key as keyof Definition])}.`);
  }
}

/** Return what a member says of an attribute, or of the one answer. */
function own<T>(each: Each<T> | null | undefined, attribute?: string): T | undefined {
  const value = attribute === undefined ? each : each && member(each as Record<string, T>, attribute);
  return (value as T | null | undefined) ?? undefined;
}

export const amountOf = ({ epsilon, times }: Charge) => exact(epsilon) * BigInt(times);

/** Return the item of a query in the body of `GET /v1/queries`. */
export function definitionOf(listing: unknown, name: string): Definition {
  const items = (listing as { queries?: Definition[] })?.queries;
  // Of one name the newest definition is the last.
  const item = Array.isArray(items) && items.filter((each) => each?.name === name).at(-1);
  if (!item) throw new NotAllowed(`The gateway has no query ${name}.`);
  return item;
}
