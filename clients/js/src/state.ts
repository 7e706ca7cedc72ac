/** The state of a device: charges, rounds, times and the queue, but never a value. */

import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { hex } from "./definition.js";
import { StoreError } from "./errors.js";
import type { Definition } from "./listing.js";

/** Modes of a charge: for answers life and once, and for answers fresh. */
export const STABLE = 0;
export const FRESH = 1;

export interface ChargeRow {
  name: string;
  digest: string;
  round: number;
  mode: number;
  epsilon: number;
  times: number;
}

/** A frame on its way, in hex digits, with the key of all its requests. */
export interface Entry {
  key: string;
  frame: string;
}

export interface State {
  version: 1;
  /** A short hash of the device key. */
  mark: string;
  charges: ChargeRow[];
  /** Time of the last answer to each query. */
  last: Record<string, number>;
  /** Start of the last round of each digest. */
  rounds: Record<string, number>;
  /** Number of fresh answers of each digest. */
  given: Record<string, number>;
  /** The report of a round of each digest, for answers once. */
  once: Record<string, { round: number; report: string }>;
  queue: Entry[];
  /** The last definition of each query, for answers without a connection. */
  definitions: Record<string, Definition>;
}

export interface Store {
  readonly key: Uint8Array;
  /** Change the state in one atomic step that is on disk afterwards. If `change` throws, nothing changes. */
  update<T>(change: (state: State) => T): Promise<T>;
  close(): void;
}

export const KEY_BYTES = 32;

export function newKey(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(KEY_BYTES));
}

/** Return the state of a store that is opened with a key, a new one if there is none yet. */
export function bound(state: State | undefined, key: Uint8Array, name: string): State {
  if (key.length !== KEY_BYTES) throw new StoreError(`The key of ${name} has ${key.length} bytes, not ${KEY_BYTES}.`);
  const mark = hex(hmac(sha256, key, new TextEncoder().encode("hubbub: the key of this store")).subarray(0, 8));
  if (!state) {
    return { version: 1, mark, charges: [], last: {}, rounds: {}, given: {}, once: {}, queue: [], definitions: {} };
  }
  if (state.version > 1) throw new StoreError(`Store ${name} is of version ${state.version}. Update the client.`);
  if (state.version !== 1 || !Array.isArray(state.charges)) throw new StoreError(`Store ${name} is damaged. Restore it.`);
  if (state.mark !== mark && state.charges.length) {
    throw new StoreError(`Store ${name} has another key. Use its first key.`);
  }
  return { ...state, mark };
}

/** Refuse a store of which only the charges or only the key are left. */
export function refuseHalf(state: unknown, stored: boolean, given: boolean, name: string): void {
  if (state && !stored && !given) throw new StoreError(`The key of store ${name} is missing. Restore it.`);
  if (!state && stored) throw new StoreError(`Store ${name} is missing, but its key exists. Restore the store.`);
}
