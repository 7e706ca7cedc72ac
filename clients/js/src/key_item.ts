/** The key item: the device key with a floor of all charges. An application keeps it apart from the store. */

import { StoreError } from "./errors.js";
import { decimal, fromDecimal, rounded } from "./exact.js";
import { noiseRows, sum } from "./ledger.js";
import { hex, utf8 } from "./records.js";
import { firstReport, FRESH, STABLE, type State } from "./state.js";

/** A place for the key item that no backup of the store copies, for example the system's key store. */
export interface KeyStore {
  read(): Uint8Array | null | undefined | Promise<Uint8Array | null | undefined>;
  write(item: Uint8Array): void | Promise<void>;
}

export interface KeyItem {
  /** Draws of each digest that were charged. */
  fresh: Record<string, number>;
  key: string;
  /** The sum of all charges ever. */
  life: string;
  /** The device time, rounded up to a second. */
  newest: number;
  /** The last round of each digest that a report for life or once used, and the charge of its noise. */
  rounds: Record<string, [start: number, charge: string]>;
  version: 1;
}

const LOST = "(lost)";
const MOST_BYTES = 65_536;

/** Return the item of a state, in canonical JSON. */
export function itemOf(state: State, key: Uint8Array): Uint8Array {
  const { charges, given, lost, newest, since } = state;
  const rounds: KeyItem["rounds"] = {};
  const fresh: KeyItem["fresh"] = {};
  // A lost store has no charges of the rounds and the draws that the item knows.
  for (const digest of [...charges.map((row) => row.digest), ...Object.keys({ ...given, ...lost })].sort()) {
    const own = (mode: number) => charges.filter((row) => row.digest === digest && row.mode === mode);
    const rows = own(STABLE);
    // A charge without an answer must not hide the answered round before it.
    const answered = rows.filter((row) => firstReport(state, digest, row.round) !== "");
    const start = Math.max(lost[digest] ?? -1, ...answered.map((row) => row.round));
    // Noise that had expired needs room again after a loss.
    const noise = rows.filter((row) => row.round === start && row.used > (since ?? -Infinity));
    if (digest && start >= 0) rounds[digest] = [start, decimal(sum(noise))];
    const draws = Math.max(given[digest] ?? 0, ...own(FRESH).map((row) => row.number + row.times));
    if (draws) fresh[digest] = draws;
  }
  // The members are in the order of canonical JSON.
  const item: KeyItem = { fresh, key: hex(key), life: decimal(sum(charges)), newest: Math.ceil(newest), rounds, version: 1 };
  const bytes = utf8(JSON.stringify(item));
  if (bytes.length > MOST_BYTES) throw new StoreError(`The key item would have more than ${MOST_BYTES} bytes.`);
  return bytes;
}

/** Return the item that was written. What is wrong with a sum in it shows when it is used. */
export function readItem(bytes: Uint8Array): KeyItem {
  const item = JSON.parse(new TextDecoder().decode(bytes)) as KeyItem;
  if (item.version !== 1 || !/^[0-9a-f]{64}$/.test(item.key) || !Number.isSafeInteger(item.newest)) throw item;
  return item;
}

/** Book the charges that a lost or old store lacks. */
export function restore(state: State, { fresh, life, newest, rounds }: KeyItem): void {
  const book = (text: string, booked: bigint, digest: string, round: number) => {
    const amount = fromDecimal(text);
    if (amount <= fromDecimal(decimal(booked))) return;
    const epsilon = rounded(amount - booked, true);
    state.charges.push({ name: LOST, digest, round, mode: STABLE, number: 0, epsilon, times: 1, used: newest });
  };
  for (const [digest, [start, charge]] of Object.entries(rounds)) {
    const booked = sum(noiseRows(state, digest, STABLE, start));
    // The key draws the same noise again, but a report of once is gone.
    if (!booked || firstReport(state, digest, start) === "") state.lost[digest] = start;
    book(charge, booked, digest, start);
    state.rounds[digest] = Math.max(state.rounds[digest] ?? 0, start);
  }
  book(life, sum(state.charges), "", 0);
  for (const [digest, draws] of Object.entries(fresh)) state.given[digest] = Math.max(state.given[digest] ?? 0, draws);
  state.newest = Math.max(state.newest, newest);
}
