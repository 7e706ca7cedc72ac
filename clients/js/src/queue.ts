/** The offline queue: frames stay in the store until the gateway takes or refuses them. */

import { DeliveryError } from "./errors.js";
import type { Gateway, Outcome } from "./gateway.js";
import type { Entry } from "./state.js";
import type { Store } from "./store.js";

/** Pauses between two tries, in seconds. */
const FIRST = 0.5;
const SLOWEST = 60;
/** Bytes that a browser sends for all requests of a page that closes. */
const AT_UNLOAD = 60_000;

export class Queue {
  #passes: Promise<unknown> = Promise.resolve();
  #timer?: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;
  readonly #refusals = new Map<string, string>();
  #closed = false;
  /** Frames of this page that no request carries now. */
  readonly #idle = new Map<string, Entry>();
  readonly #forgotten = new AbortController();

  readonly #store: Store;
  readonly #gateway: Gateway;
  readonly #onRefusal: (reason: string) => void;

  constructor(
    store: Store,
    gateway: Gateway,
    onRefusal: (reason: string) => void,
  ) {
    this.#store = store;
    this.#gateway = gateway;
    this.#onRefusal = onRefusal;
    const { signal } = this.#forgotten;
    const page: Partial<EventTarget> = globalThis;
    page.addEventListener?.("online", () => this.again(0), { signal });
    page.addEventListener?.("pagehide", () => this.#unload(), { signal });
  }

  /** Try to send a frame that is in the store. Throw if the gateway refuses it for good. */
  async send(entry: Entry): Promise<void> {
    this.#idle.set(entry.key, entry);
    const outcome = (await this.#pass()).get(entry.key);
    if (outcome?.state !== "refused") return;
    this.#refusals.delete(entry.key);
    throw new DeliveryError(`The gateway refused reports: ${outcome.reason}.`);
  }

  /** Wait until the queue is empty. Throw if the gateway refused reports, or gives no answer for so many seconds. */
  async flush(patience: number): Promise<void> {
    const end = Date.now() + 1000 * patience;
    for (;;) {
      const outcomes = await this.#pass();
      if (this.#refusals.size) {
        const reasons = [...this.#refusals.values()];
        this.#refusals.clear();
        throw new DeliveryError(`The gateway refused reports: ${reasons.join(", ")}.`);
      }
      const left = [...outcomes.values()].find(({ state }) => state === "waiting");
      if (!left) return;
      if (this.#closed || Date.now() > end) throw new DeliveryError(`Reports wait: ${left.reason}.`);
      await new Promise((resolve) => setTimeout(resolve, 1000 * Math.min(pause(this.#failures), patience)));
    }
  }

  /** Send what earlier pages left. */
  again(seconds: number): void {
    clearTimeout(this.#timer);
    if (this.#closed) return;
    this.#timer = setTimeout(() => void this.#pass().catch(() => {}), 1000 * seconds);
    (this.#timer as { unref?: () => void }).unref?.();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#forgotten.abort();
    await this.#passes;
  }

  /** Try each frame of the store once, one pass at a time. */
  #pass(): Promise<Map<string, Outcome>> {
    const pass = this.#passes.then(() => this.#tryAll());
    this.#passes = pass.catch(() => {});
    return pass;
  }

  async #tryAll(): Promise<Map<string, Outcome>> {
    const outcomes = new Map<string, Outcome>();
    const entries = await this.#store.update((state) => state.queue);
    let waiting: Outcome | undefined;
    for (const entry of entries) {
      // Without a connection the first failure stands for all frames.
      const outcome = waiting ?? (await this.#tryOne(entry));
      outcomes.set(entry.key, outcome);
      if (outcome.state === "waiting") waiting = outcome;
    }
    this.#failures = waiting ? this.#failures + 1 : 0;
    if (waiting) this.again(Math.max(waiting.after, pause(this.#failures)));
    return outcomes;
  }

  async #tryOne(entry: Entry): Promise<Outcome> {
    this.#idle.delete(entry.key);
    const outcome = await this.#gateway.post(entry);
    if (outcome.state === "waiting") {
      this.#idle.set(entry.key, entry);
      return outcome;
    }
    await this.#store.update((state) => {
      state.queue = state.queue.filter(({ key }) => key !== entry.key);
    });
    if (outcome.state === "refused") {
      this.#refusals.set(entry.key, outcome.reason);
      this.#onRefusal(outcome.reason);
    }
    return outcome;
  }

  /** Send the idle frames of a page that closes. They stay in the store, and the next page sends them again. */
  #unload(): void {
    let size = 0;
    for (const entry of this.#idle.values()) {
      size += entry.frame.length / 2;
      if (size < AT_UNLOAD) void this.#gateway.post(entry);
    }
  }
}

/** Return the seconds until the next try. A random part keeps devices from acting together. */
function pause(failures: number): number {
  return Math.min(SLOWEST, FIRST * 2 ** failures) * (0.5 + Math.random() / 2);
}
