/** What a page about privacy shows: the next answer, the charges that count now, and those of the whole life. */

import type { Query } from "./definition.js";
import { exact, nearest } from "./exact.js";
import { decide, dueTime, roundCharge, sum } from "./ledger.js";
import type { Limits } from "./limits.js";
import type { ChargeRow, State } from "./state.js";

/** Charges of the queries of one name, in epsilon. */
export interface NameStatus {
  name: string;
  /** Charges that count against `maxEpsilon` now. */
  counted: number;
  /** All charges ever. */
  life: number;
}

/** The state of a device. Charges are in epsilon. */
export interface Status {
  /** Unix seconds of a time in the next open period. */
  due: number;
  /** The charge of this query in the present round. */
  spent: number;
  /** The rest of the query's budget in the present round, or of `maxEpsilon` if that is less. */
  remaining: number;
  maxEpsilon: number;
  /** Seconds after which an unused charge expires. null: never. */
  per: number | null;
  /** Charges of all queries that count against `maxEpsilon` now. */
  counted: number;
  /** All charges ever of all queries. */
  life: number;
  /** Whether the present round is longer than the query's `renew` says. */
  lengthened: boolean;
  /** The charges of each name, in the order of names. */
  queries: NameStatus[];
}

export function statusOf(state: State, query: Query, now: number, limits: Limits, key: Uint8Array): Status {
  const { digest, budget } = query.definition;
  const { maxEpsilon, per } = limits;
  const { round, time, lengthened = false } = decide(state, query, now, limits);
  const active = state.charges.filter((row) => row.used > time - per);
  const counted = sum(active);
  const spent = roundCharge(state, digest, round);
  const rest = [exact(budget) - spent, exact(maxEpsilon) - counted].reduce((a, b) => (a < b ? a : b));
  const names = [...new Set(state.charges.map((row) => row.name))].sort();
  return {
    due: dueTime(state, query, now, key),
    spent: nearest(spent),
    remaining: rest > 0n ? nearest(rest) : 0,
    maxEpsilon,
    per: per < Infinity ? per : null,
    counted: amount(active),
    life: amount(state.charges),
    lengthened,
    queries: names.map((name) => ({
      name,
      counted: amount(active, name),
      life: amount(state.charges, name),
    })),
  };
}

/** Return the sum of charges, of all names or of one. */
function amount(rows: ChargeRow[], name?: string): number {
  return nearest(sum(rows.filter((row) => name === undefined || row.name === name)));
}
