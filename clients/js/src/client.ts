/** The answers of one person to one query: charged first, then perturbed with the device key. */

import { openPlace } from "#store";
import { answerOf } from "./answer.js";
import { definitionOf, Query, type Answer } from "./definition.js";
import { attempt, DeliveryError, HubbubError, NotAllowed } from "./errors.js";
import { Gateway, type Token } from "./gateway.js";
import { limitsOf, type Limits } from "./limits.js";
import { inMemory } from "./memory.js";
import type { KeyStore } from "./key_item.js";
import { checkPins, type Pinned } from "./pins.js";
import { Queue } from "./queue.js";
import { own } from "./records.js";
import { statusOf, type Status } from "./status.js";
import { MEMORY, opened, type Store } from "./store.js";

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
  /** A place for the key and a floor of the charges, which no backup of the store copies. */
  keyStore?: KeyStore;
  /** Whether a missing store is a first start although the application passes `key`. */
  first?: boolean;
  /** Epsilon that the device may reveal over all queries of the store. */
  maxEpsilon?: number;
  /** Seconds, or a text such as "30d", in which the device may reveal it again. Without it charges never expire. */
  per?: number | string | null;
  /** The person's value of the query's groups, which is public. A value that is not listed is of no group. */
  group?: string;
  /** The time in Unix seconds, for tests. */
  clock?: () => number;
  /** A replacement of `fetch`, for tests. */
  fetch?: typeof fetch;
}

/** Seconds after which a client reads the definition again. */
const FRESHNESS = 3600;

export class Client {
  readonly #gateway: Gateway;
  readonly #limits: Limits;
  readonly #clock: () => number;
  #opening?: Promise<[Store, Queue]> | undefined;
  #loaded?: { query: Query; at: number } | undefined;

  readonly #options: Options;

  constructor(options: Options) {
    this.#options = options;
    this.#clock = options.clock ?? (() => Date.now() / 1000);
    this.#limits = limitsOf(options.maxEpsilon, options.per);
    checkPins(options.pinned ?? {});
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
    const entry = await store.alone(() =>
      answerOf(store, query, value, this.#clock(), this.#limits, this.#options.group),
    );
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

  /** Return the time of the next answer, and the charges: what counts now, and the whole life. */
  async status(): Promise<Status> {
    const [store] = await this.#open();
    const query = await this.#query(store);
    return store.update((state) => statusOf(state, query, this.#clock(), this.#limits, store.key));
  }

  #open(): Promise<[Store, Queue]> {
    this.#opening ??= this.#opened().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #opened(): Promise<[Store, Queue]> {
    const name = this.#options.store ?? "hubbub";
    const place = name === MEMORY ? inMemory() : await openPlace(name, !!this.#options.keyStore);
    const store = await opened(place, name, this.#options, this.#clock());
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
      definition = await store.update((state) => own(state.definitions, name));
      if (!definition) throw new DeliveryError(`There is no definition of ${name}: ${error}`);
    }
    definition ??= definitionOf(listing, name);
    // Whatever is wrong with the listing is the gateway's fault.
    const query = attempt(
      () => new Query(definition, pinned),
      (error) => (error instanceof HubbubError ? error : new NotAllowed(`The definition is not valid: ${error}`)),
    );
    if (listing) {
      await store.update((state) => {
        state.definitions = { ...state.definitions, [name]: definition };
      });
      this.#loaded = { query, at: now };
    }
    return query;
  }
}
