/** The state of a device: charges, rounds, times and the queue, but never a value. */

import { StoreError } from "./errors.js";
import type { Definition } from "./listing.js";
import { hex, own, utf8 } from "./records.js";
import { hmac } from "./source.js";

/** Modes of a charge: for answers life and once, and for answers fresh. */
export const STABLE = 0;
export const FRESH = 1;

/** A charge of a noise. In mode STABLE a noise is that of a digest and a round, in mode FRESH that of one draw. */
export interface ChargeRow {
  name: string;
  digest: string;
  round: number;
  mode: number;
  /** Number of earlier fresh draws of the digest. A row may hold several draws, one after another. */
  number: number;
  epsilon: number;
  times: number;
  /** Device time of the last answer that used the noise. */
  used: number;
}

/** A frame on its way, in hex digits, with the key of all its requests. */
export interface Entry {
  key: string;
  frame: string;
}

export interface State {
  version: 2;
  /** A short hash of the device key. */
  mark: string;
  /** The newest time of a use or an answer. The device time is never lower. */
  newest: number;
  charges: ChargeRow[];
  /** Time of the last answer to each query. */
  last: Record<string, number>;
  /** Start of the last round of each digest. */
  rounds: Record<string, number>;
  /** Number of fresh answers of each digest. */
  given: Record<string, number>;
  /** The report of a round of each digest, for answers once. */
  once: Record<string, { round: number; report: string }>;
  /** The round of each digest that the key item knows, and whose report the store may have lost. */
  lost: Record<string, number>;
  /** The device time after which a use counted at the last answer. JSON has null for -Infinity. */
  since?: number | null;
  queue: Entry[];
  /** The last definition of each query, for answers without a connection. */
  definitions: Record<string, Definition>;
}

export const KEY_BYTES = 32;

export function newKey(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(KEY_BYTES));
}

/** Return the state of a store that is opened with a key, a new one if there is none yet. */
export function bound(state: State | undefined, key: Uint8Array, name: string, now: number): State {
  if (key.length !== KEY_BYTES) throw new StoreError(`The key of ${name} must have ${KEY_BYTES} bytes.`);
  const mark = hex(hmac(key, utf8("hubbub: the key of this store")).subarray(0, 8));
  if (!state) {
    const empty = { charges: [], last: {}, rounds: {}, given: {}, once: {}, lost: {}, queue: [], definitions: {} };
    return { version: 2, mark, newest: 0, ...empty };
  }
  if (state.version > 2) throw new StoreError(`Store ${name} is of version ${state.version}. Update the client.`);
  if (!(state.version > 0) || !Array.isArray(state.charges)) throw new StoreError(`Store ${name} is damaged. Restore it.`);
  if (state.mark !== mark && state.charges.length) {
    throw new StoreError(`Store ${name} has another key.`);
  }
  if (state.version < 2) upgrade(state, now);
  return { ...state, lost: state.lost ?? {}, mark };
}

/** Return the report of a round for answers once. It is empty if the round is charged and has no answer. */
export function firstReport({ once }: State, digest: string, round: number): string | undefined {
  return once[digest]?.round === round ? once[digest].report : undefined;
}

/** Upgrade a state of version 1, which had neither the time of a use nor the numbers of fresh draws. */
function upgrade(state: State, now: number): void {
  const draws: Record<string, number> = {};
  for (const row of state.charges) {
    const { digest, round, mode, times } = row;
    const later = [state.rounds[digest] ?? 0, ...state.charges.filter((each) => each.digest === digest).map((each) => each.round)];
    // A round ended at the latest when the next one of its digest began.
    const next = Math.min(...later.filter((start) => round && start > round));
    const last = own(state.last, row.name);
    row.used = last === undefined && next < Infinity ? next : Math.min(last ?? now, next);
    row.number = mode === FRESH ? (draws[digest] ?? 0) : 0;
    if (mode === FRESH) draws[digest] = row.number + times;
  }
  state.newest = Math.max(0, ...Object.values(state.last), ...state.charges.map((row) => row.used));
  state.version = 2;
}
