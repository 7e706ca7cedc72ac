/** The rules of charges, rounds and periods, as docs/clients.md states them. */

import { amountOf, type Charge, type Query } from "./definition.js";
import { BudgetSpent, NotYet } from "./errors.js";
import { exact, nearest, rounded } from "./exact.js";
import type { Limits } from "./limits.js";
import { own, utf8 } from "./records.js";
import { bytesOf, hmac, joined } from "./source.js";
import { FRESH, STABLE, type ChargeRow, type State } from "./state.js";

/** How the next answer is charged. */
export interface Decision {
  /** The round of the answer. */
  round: number;
  /** The part of the charge that is not booked yet. It may be of no times. */
  unpaid: Charge;
  /** The device time. */
  time: number;
  /** Why a limit does not allow the answer. */
  refusal?: string;
  /** Whether `maxEpsilon` does not allow a new round. */
  exceeds?: boolean;
  /** Whether the answer stays in the last round, because the new one does not fit. */
  lengthened?: boolean;
}

/** Part of a limit that rounding may exceed: 0.3 is three times 0.1. */
const SLACK = 10n ** 12n;

/** Refuse a second answer in a period, and an answer in an earlier period. */
export function checkPeriod(state: State, query: Query, now: number, key: Uint8Array): void {
  const { name, period } = query.definition;
  const last = own(state.last, name) ?? -Infinity;
  if (Math.floor(now / period) > Math.floor(last / period)) return;
  const due = dueTime(state, query, now, key);
  throw new NotYet(`Query ${name} can be answered again in ${Math.round(due - now)} s.`, due);
}

/** Return a time in the next open period. The key spreads the times of devices over the period. */
export function dueTime(state: State, query: Query, now: number, key: Uint8Array): number {
  const { name, period } = query.definition;
  const last = own(state.last, name) ?? -Infinity;
  const index = Math.max(Math.floor(now / period), Math.floor(last / period) + 1);
  const text = joined([utf8("due"), query.digest, bytesOf(index, 8)]);
  const place = hmac(key, text).subarray(0, 6).reduceRight((sum, byte) => sum * 256 + byte, 0) / 2 ** 48;
  return index * period + period * place;
}

/** Return the start of the present round. It never goes back, even if the clock does. */
export function roundOf(state: State, query: Query, now: number): number {
  const { digest, renew } = query.definition;
  return Math.max(renew ? Math.floor(now / renew) * renew : 0, state.rounds[digest] ?? 0);
}

/** Decide how the next answer is charged. A charge counts until `per` has passed since the last use of its noise. */
export function decide(state: State, query: Query, now: number, limits: Limits): Decision {
  const { name, digest, answers, budget } = query.definition;
  const time = Math.max(now, state.newest);
  const counts = (row: ChargeRow) => row.used > time - limits.per;
  const round = roundOf(state, query, now);
  const noise = rowsOf(state, query, round);
  const booked = sum(noise);
  const decision: Decision = { round, time, unpaid: unpaidOf(query, booked) };
  const isActive = noise.some(counts);
  const due = amountOf(decision.unpaid);
  if (isActive && !due) return decision;

  const spent = roundCharge(state, digest, round);
  const refusal = due && refusalOf(`The budget of ${name}`, budget, spent, due);
  if (refusal) return { ...decision, refusal };

  // Noise that has expired comes back with all that it has booked.
  const excess = refusalOf("maxEpsilon of this device", limits.maxEpsilon, sum(state.charges.filter(counts)), isActive ? due : due + booked);
  if (!excess) return decision;
  const last = state.rounds[digest] ?? round;
  const lastNoise = rowsOf(state, query, last);
  if (answers === "life" && lastNoise.some(counts) && sum(lastNoise) >= amountOf(query.charge)) {
    return { ...decision, round: last, unpaid: { ...query.charge, times: 0 }, exceeds: true, lengthened: true };
  }
  return { ...decision, refusal: excess, exceeds: true };
}

/** Book the charge and the use of an answer, or refuse it. Return the round of its noise. */
export function charge(state: State, query: Query, now: number, limits: Limits): number {
  const { name, digest, answers, renew } = query.definition;
  const { round, unpaid, time, refusal, exceeds } = decide(state, query, now, limits);
  if (exceeds && renew) warn(name, limits);
  if (refusal) throw new BudgetSpent(refusal);
  // A round counts as answered in the key item only after its first report is stored.
  if (answers === "once" && !rowsOf(state, query, round).length) state.once[digest] = { round, report: "" };
  if (unpaid.times) {
    const mode = modeOf(query);
    const number = mode === FRESH ? (state.given[digest] ?? 0) : 0;
    state.charges.push({ name, digest, round, mode, number, ...unpaid, used: time });
  }
  for (const row of rowsOf(state, query, round)) row.used = time;
  state.rounds[digest] = round;
  state.newest = time;
  state.since = time - limits.per;
  joinOld(state, digest, limits);
  return round;
}

/** Join the charges of a digest that no later answer can use. Their sum and their newest use stay. */
function joinOld(state: State, digest: string, { per }: Limits): void {
  const isPast = (row: ChargeRow) => row.round < state.rounds[digest]!;
  const isExpired = (row: ChargeRow) => row.used <= state.newest - per;
  // A round never returns, and a draw below the next number is answered. What counts now expires by its own use.
  const isOld = (row: ChargeRow) =>
    row.digest === digest &&
    (row.mode === STABLE
      ? isExpired(row) && isPast(row)
      : (isExpired(row) || per === Infinity) && row.number + row.times <= (state.given[digest] ?? 0));
  const kept = new Map<unknown, ChargeRow>();
  for (const row of state.charges) {
    const kind = isOld(row) ? JSON.stringify([isPast(row), row.name, row.mode, row.epsilon]) : row;
    const first = kept.get(kind);
    if (!first) kept.set(kind, row);
    else {
      first.times += row.times;
      first.round = Math.max(first.round, row.round);
      first.used = Math.max(first.used, row.used);
    }
  }
  state.charges = [...kept.values()];
}

export function modeOf(query: Query): number {
  return query.definition.answers === "fresh" ? FRESH : STABLE;
}

/** Return the charges of the noise of an answer in a round. */
function rowsOf(state: State, query: Query, round: number): ChargeRow[] {
  const { digest } = query.definition;
  const mode = modeOf(query);
  return noiseRows(state, digest, mode, mode === FRESH ? (state.given[digest] ?? 0) : round);
}

/** Return the charges of the noise of a round, or of a fresh draw by its number. */
export function noiseRows({ charges }: State, digest: string, mode: number, place: number): ChargeRow[] {
  const isOwn = ({ round, number, times }: ChargeRow) =>
    mode === STABLE ? round === place : number <= place && place < number + times;
  return charges.filter((row) => row.digest === digest && row.mode === mode && isOwn(row));
}

/** Return the part of an answer's charge that its noise has not booked. */
function unpaidOf(query: Query, booked: bigint): Charge {
  const { epsilon } = query.charge;
  if (modeOf(query) === FRESH) return { epsilon, times: Number(!booked) };
  const unit = exact(epsilon);
  const rest = amountOf(query.charge) - booked;
  if (rest <= 0n) return { epsilon, times: 0 };
  return rest % unit ? { epsilon: rounded(rest, true), times: 1 } : { epsilon, times: Number(rest / unit) };
}

/** Return why a limit does not allow an answer, or nothing if it does. */
function refusalOf(title: string, limit: number, spent: bigint, due: bigint): string | undefined {
  if ((spent + due) * SLACK <= exact(limit) * (SLACK + 1n)) return undefined;
  return `${title} is ${limit}: ${nearest(spent)} is spent, the answer costs ${nearest(due)}.`;
}

/** Return the charge of a definition in a round. */
export function roundCharge(state: State, digest: string, round: number): bigint {
  return sum(state.charges.filter((row) => row.digest === digest && row.round === round));
}

export function sum(rows: ChargeRow[]): bigint {
  return rows.reduce((total, row) => total + amountOf(row), 0n);
}

const warned = new Set<string>();

/** Warn once of a query whose rounds do not fit. */
function warn(name: string, { maxEpsilon }: Limits): void {
  if (warned.has(name)) return;
  warned.add(name);
  console.warn(`A new round of ${name} exceeds maxEpsilon ${maxEpsilon}. Pass \`per\` or a larger maxEpsilon.`);
}
