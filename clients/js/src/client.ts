/** The answers of one person to one query: charged first, then perturbed with the device key. */

import { openStore } from "#store";
import { definitionOf, hex, Query, unhex, type Answer, type Pinned } from "./definition.js";
import { DeliveryError, HubbubError, NotAllowed } from "./errors.js";
import { rounded } from "./exact.js";
import { Gateway, type Token } from "./gateway.js";
import * as ledger from "./ledger.js";
import { openMemory } from "./memory.js";
import { Queue } from "./queue.js";
import { frameOf, reportOf } from "./report.js";
import { Keyed } from "./source.js";
import { FRESH, type State, type Store } from "./state.js";

export interface Options {
  /** Address of the gateway, https://HOST. */
  gateway: string;
  /** The token, or a function that returns a short-lived one before each request. */
  token?: Token;
  /** Name of the query. */
  query: string;
  /** What the application agreed to. */
  pinned?: Pinned;
  /** A path in Node, a name in IndexedDB. ":memory:" ends with the client. */
  store?: string;
  /** The device key, 32 bytes, if the application keeps it. */
  key?: Uint8Array;
  /** Epsilon that the device may reveal over all queries of the store. */
  maxEpsilon?: number;
  /** The person's value of the query's groups, which is public. A value that is not listed is of no group. */
  group?: string;
  /** The time in Unix seconds, for tests. */
  clock?: () => number;
  /** A replacement of `fetch`, for tests. */
  fetch?: typeof fetch;
}

/** What a page about privacy shows. Charges are those of the present round, in epsilon. */
export interface Status {
  due: number;
  spent: number;
  remaining: number;
}

/** Seconds after which a client reads the definition again. */
const FRESHNESS = 3600;
const DEVICE_EPSILON = 8;
/** Most frames in the queue. */
const ROOM = 1000;

export class Client {
  readonly #gateway: Gateway;
  readonly #maxEpsilon: number;
  readonly #storeName: string;
  readonly #clock: () => number;
  #opening?: Promise<[Store, Queue]> | undefined;
  #loaded?: { query: Query; at: number } | undefined;

  readonly #options: Options;

  constructor(options: Options) {
    this.#options = options;
    this.#clock = options.clock ?? (() => Date.now() / 1000);
    this.#maxEpsilon = options.maxEpsilon ?? DEVICE_EPSILON;
    this.#storeName = options.store ?? "hubbub";
    this.#gateway = new Gateway(options.gateway, options.token, options.fetch ?? ((...request) => fetch(...request)));
    this.#open().then(
      ([, queue]) => queue.again(0),
      () => {}, // the next call opens the store again, and says what is wrong
    );
  }

  /**
   * Answer the query. The promise resolves when the gateway has the report, or when it is in the offline queue.
   * If it rejects, no report was sent.
   */
  async answer(value: Answer): Promise<void> {
    const [store, queue] = await this.#open();
    const query = await this.#query(store);
    const entry = await alone(this.#storeName, () => this.#charged(store, query, value));
    await queue.send(entry);
  }

  /** Wait until the queue is empty. */
  async flush(patience = 60): Promise<void> {
    const [, queue] = await this.#open();
    await queue.flush(patience);
  }

  /** End the client. What is in the queue stays there for the next one. */
  async close(): Promise<void> {
    const [store, queue] = await this.#open();
    await queue.close();
    store.close();
  }

  /** Return the time of the next answer, and the charges. */
  async status(): Promise<Status> {
    const [store] = await this.#open();
    const query = await this.#query(store);
    return store.update((state) => {
      const now = this.#clock();
      const round = ledger.roundOf(state, query, now);
      const spent = rounded(ledger.roundCharge(state, query, round), true);
      const device = rounded(ledger.deviceCharge(state, query, round), true);
      const remaining = Math.max(0, Math.min(query.definition.budget - spent, this.#maxEpsilon - device));
      return { due: ledger.dueTime(state, query, now, store.key), spent, remaining };
    });
  }

  #open(): Promise<[Store, Queue]> {
    this.#opening ??= this.#opened().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #opened(): Promise<[Store, Queue]> {
    const { key } = this.#options;
    const memory = this.#storeName === ":memory:";
    const store = memory ? openMemory(key) : await openStore(this.#storeName, key);
    const queue = new Queue(store, this.#gateway, (reason) => {
      if (reason === "stale_digest" || reason === "unknown_query") this.#loaded = undefined;
    });
    return [store, queue];
  }

  /** Return the definition: the gateway's, or without a connection the last one. */
  async #query(store: Store): Promise<Query> {
    const { query: name, pinned } = this.#options;
    const now = this.#clock();
    if (this.#loaded && Math.abs(now - this.#loaded.at) < FRESHNESS) return this.#loaded.query;
    let definition;
    let listing;
    try {
      listing = await this.#gateway.queries();
    } catch (error) {
      definition = await store.update((state) => state.definitions[name]);
      if (!definition) throw new DeliveryError(`There is no definition of ${name} yet: ${error}`);
    }
    definition ??= definitionOf(listing, name);
    const query = checked(() => new Query(definition, pinned));
    if (listing) {
      await store.update((state) => {
        state.definitions[name] = definition;
      });
      this.#loaded = { query, at: now };
    }
    return query;
  }

  /** Charge an answer, or refuse it, before the value is read. Then put its report into the queue. */
  async #charged(store: Store, query: Query, value: Answer) {
    const { name, digest, answers, pane } = query.definition;
    const now = this.#clock();
    const paid = await store.update((state) => {
      if (state.queue.length >= ROOM) throw new DeliveryError(`The queue is full: ${ROOM} reports wait for ${name}.`);
      ledger.checkPeriod(state, query, now, store.key);
      const round = ledger.roundOf(state, query, now);
      state.rounds[digest] = round;
      ledger.charge(state, query, round, this.#maxEpsilon);
      return { round, given: state.given[digest] ?? 0 };
    });
    const positions = query.positionsOf(value);
    const mode = ledger.modeOf(query);
    const round = mode === FRESH ? paid.given : paid.round;
    const made = reportOf(
      query,
      positions,
      (attribute, purpose, classes) => new Keyed(store.key, query.digest, attribute, mode, purpose, round, classes),
    );
    return store.update((state) => {
      ledger.checkPeriod(state, query, now, store.key);
      const report = answers === "once" ? repeated(state, digest, paid.round, made) : made;
      if (mode === FRESH) state.given[digest] = paid.given + 1;
      state.last[name] = now;
      const group = query.groupOf(this.#options.group);
      const frame = frameOf(query, Math.floor(now / pane) * pane, report.length, report, group);
      const entry = { key: hex(crypto.getRandomValues(new Uint8Array(16))), frame: hex(frame) };
      state.queue.push(entry);
      return entry;
    });
  }
}

/** Return the first report of a round: for answers once. */
function repeated(state: State, digest: string, round: number, report: Uint8Array): Uint8Array {
  const first = state.once[digest];
  if (first?.round === round) return unhex(first.report);
  state.once[digest] = { round, report: hex(report) };
  return report;
}

/** Make something of a listing. Whatever is wrong with the listing is the gateway's fault. */
function checked<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    throw error instanceof HubbubError ? error : new NotAllowed(`The gateway's definition is not valid: ${error}`);
  }
}

/** Act while no other tab of the origin does. */
async function alone<T>(name: string, act: () => Promise<T>): Promise<T> {
  const locks = globalThis.navigator?.locks;
  return locks ? ((await locks.request(`hubbub ${name}`, act)) as T) : act();
}
