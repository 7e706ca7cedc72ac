/** The rules of charges, rounds and periods, as docs/clients.md states them. */

import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { amountOf, type Charge, type Query } from "./definition.js";
import { BudgetSpent, NotYet } from "./errors.js";
import { exact, rounded } from "./exact.js";
import { bytesOf, joined } from "./source.js";
import { FRESH, STABLE, type ChargeRow, type State } from "./state.js";

/** Part of a limit that rounding may exceed: 0.3 is three times 0.1. */
const SLACK = 10n ** 12n;

/** Refuse a second answer in a period, and an answer in an earlier period. */
export function checkPeriod(state: State, query: Query, now: number, key: Uint8Array): void {
  const { name, period } = query.definition;
  const last = state.last[name];
  if (last === undefined || Math.floor(now / period) > Math.floor(last / period)) return;
  const due = dueTime(state, query, now, key);
  throw new NotYet(`Query ${name} can be answered again in ${Math.round(due - now)} s.`, due);
}

/** Return a time in the next open period. The key spreads the times of devices over the period. */
export function dueTime(state: State, query: Query, now: number, key: Uint8Array): number {
  const { name, period } = query.definition;
  const last = state.last[name];
  const next = last === undefined ? 0 : Math.floor(last / period) + 1;
  const index = Math.max(Math.floor(now / period), next);
  const text = joined([new TextEncoder().encode("due"), query.digest, bytesOf(BigInt(index), 8)]);
  const place = hmac(sha256, key, text).subarray(0, 6).reduceRight((sum, byte) => sum * 256 + byte, 0) / 2 ** 48;
  return index * period + period * place;
}

/** Return the start of the present round. It never goes back, even if the clock does. */
export function roundOf(state: State, query: Query, now: number): number {
  const { digest, renew } = query.definition;
  return Math.max(renew ? Math.floor(now / renew) * renew : 0, state.rounds[digest] ?? 0);
}

/** Charge the next answer if it costs anything, or refuse it if a limit does not allow that. */
export function charge(state: State, query: Query, round: number, maxEpsilon: number): void {
  const { name, digest, budget } = query.definition;
  const due = unpaid(state, query, round);
  if (!due.times) return;
  for (const [spent, limit, title] of [
    [roundCharge(state, query, round), budget, `The budget of ${name}`],
    [deviceCharge(state, query, round), maxEpsilon, "maxEpsilon of this device"],
  ] as const) {
    if ((spent + amountOf(due)) * SLACK > exact(limit) * (SLACK + 1n)) {
      const cost = `${rounded(spent, true)} is spent, and the answer costs ${rounded(amountOf(due), true)}`;
      throw new BudgetSpent(`${title} is ${limit}: ${cost}.`);
    }
  }
  const mode = modeOf(query);
  const row = state.charges.find(
    (each) => each.digest === digest && each.round === round && each.mode === mode && each.epsilon === due.epsilon,
  );
  if (row) row.times += due.times;
  else state.charges.push({ name, digest, round, mode, ...due });
}

export function modeOf(query: Query): number {
  return query.definition.answers === "fresh" ? FRESH : STABLE;
}

/** Return the charge of the next answer. A charge without an answer pays for it. */
function unpaid(state: State, query: Query, round: number): Charge {
  const { digest } = query.definition;
  const mode = modeOf(query);
  const own = state.charges.filter((row) => row.digest === digest && row.mode === mode);
  const { epsilon } = query.charge;
  if (mode === FRESH) {
    const times = own.reduce((sum, row) => sum + row.times, 0);
    return { epsilon, times: Number(times <= (state.given[digest] ?? 0)) };
  }
  const rest = amountOf(query.charge) - sum(own.filter((row) => row.round === round));
  if (rest <= 0n) return { epsilon, times: 0 };
  const whole = rest % exact(epsilon) === 0n;
  return whole ? { epsilon, times: Number(rest / exact(epsilon)) } : { epsilon: rounded(rest, true), times: 1 };
}

/** Return the charge of a definition in a round. */
export function roundCharge(state: State, query: Query, round: number): bigint {
  return sum(state.charges.filter((row) => row.digest === query.definition.digest && row.round === round));
}

/** Return the sum that `maxEpsilon` limits: present rounds, and all charges of queries without renew. */
export function deviceCharge(state: State, query: Query, round: number): bigint {
  const present = (row: ChargeRow) =>
    row.digest === query.definition.digest
      ? round
      : Math.max(...state.charges.filter((each) => each.digest === row.digest).map((each) => each.round));
  return sum(state.charges.filter((row) => !row.round || row.round === present(row)));
}

function sum(rows: ChargeRow[]): bigint {
  return rows.reduce((total, row) => total + amountOf(row), 0n);
}
