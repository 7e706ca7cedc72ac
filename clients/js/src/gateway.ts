/** Requests to a gateway. */

import { DeliveryError } from "./errors.js";
import { unhex } from "./records.js";
import type { Entry } from "./state.js";

export type Token = string | (() => string | Promise<string>);

/** What happened to a frame: it counts, it never will, or another try may help after so many seconds. */
export interface Outcome {
  state: "accepted" | "refused" | "waiting";
  reason: string;
  after: number;
}

/** Statuses that another try would not change. */
const FINAL = [400, 409, 413, 415];
/** Reasons of a 429 for which a pane never gets more room. */
const FULL = ["quota", "ids"];
const TIMEOUT = 30_000;
/** The longest pause that a gateway may ask for, in seconds. */
const LONGEST_PAUSE = 3600;
/** Most bytes that browsers send after a page has closed. */
const KEEPALIVE = 60_000;

export class Gateway {
  readonly #url: string;
  readonly #token: Token | undefined;
  readonly #request: typeof fetch;

  constructor(
    url: string,
    token: Token | undefined,
    request: typeof fetch,
  ) {
    this.#url = url;
    this.#token = token;
    this.#request = request;
    const { protocol, hostname } = new URL(url);
    const local = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
    if (protocol !== "https:" && !(protocol === "http:" && local)) {
      throw new DeliveryError(`The gateway must be https://HOST (http:// on this machine), not ${url}.`);
    }
  }

  /** Return the body of `GET /v1/queries`. */
  async queries(): Promise<unknown> {
    const response = await this.#send("/v1/queries", {});
    if (!response.ok) throw new DeliveryError(`The gateway lists no queries: ${response.status}.`);
    return response.json();
  }

  /** Send a frame. Each try has the same key and body, so the report counts once. */
  async post({ key, frame }: Entry): Promise<Outcome> {
    const body = unhex(frame);
    try {
      const response = await this.#send("/v1/reports", {
        method: "POST",
        body,
        keepalive: body.length < KEEPALIVE,
        headers: { "Content-Type": "application/vnd.hubbub.frames", "Idempotency-Key": key },
      });
      const { status } = response;
      if (status === 202) return { state: "accepted", reason: "", after: 0 };
      const problem = (await response.json().catch(() => ({}))) as { reason?: string; detail?: string };
      const final = FINAL.includes(status) || (status === 429 && FULL.includes(problem.reason ?? ""));
      // A timer of more than 24.8 days would end at once.
      const after = Math.min(Number(response.headers.get("Retry-After")) || 0, LONGEST_PAUSE);
      return { state: final ? "refused" : "waiting", reason: problem.reason ?? `${status} ${problem.detail}`, after };
    } catch (error) {
      return { state: "waiting", reason: String(error), after: 0 };
    }
  }

  async #send(path: string, settings: RequestInit): Promise<Response> {
    const token = typeof this.#token === "function" ? await this.#token() : this.#token;
    // Nothing in a request tells devices apart, except the address.
    return this.#request(this.#url.replace(/\/*$/, path), {
      ...settings,
      headers: { ...settings.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) },
      credentials: "omit",
      referrerPolicy: "no-referrer",
      cache: "no-store",
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT),
    });
  }
}
