// The gateway and the board of a running demo.

import { hex } from "./frame.js";
import { randomBytes } from "./entropy.js";

const FRAMES = "application/vnd.hubbub.frames";

/** Returns the definition that the gateway lists. */
export async function definition(name) {
  const { queries } = (await json("v1/queries")) ?? { queries: [] };
  const query = queries.find((each) => each.name === name);
  if (!query) throw new Error(`The gateway has no query ${name} yet`);
  return query;
}

export class LiveBoard {
  #query;
  #sent = []; // frames that the gateway has accepted: their pane and their values

  constructor(query) {
    this.#query = query;
  }

  /** Sends a frame to the gateway. */
  async send({ frame, pane, values }) {
    const key = hex(randomBytes(16));
    const headers = { "Content-Type": FRAMES, "Idempotency-Key": key };
    const response = await fetch("v1/reports", { method: "POST", body: frame, headers, credentials: "omit" });
    if (response.status !== 202) throw new Error(`The gateway refused the report: ${(await response.json()).detail}`);
    this.#sent.push({ pane, values });
    return { note: `The gateway has accepted it. The key of the request is random: ${key.slice(0, 8)}…` };
  }

  /** Returns the newest estimate, or nothing before the first one. The truth has the answers of this page too. */
  async read() {
    const answer = await json(`api/v1/queries/${encodeURIComponent(this.#query.name)}/estimate?kind=all&method=unbiased`);
    if (!answer?.n) return null;
    const counted = this.#sent.filter(({ pane }) => pane < answer.window.end).flatMap(({ values }) => values);
    const own = counted.length;
    const rows = new Map(answer.values.map((row) => [row.value, row]));
    const values = this.#query.domain.map((value, at) => {
      const row = rows.get(value);
      const chosen = counted.filter((each) => each === at).length;
      return { ...row, truth: row.truth === null ? null : (row.truth * (answer.n - own) + chosen) / answer.n };
    });
    return { n: answer.n, own, values };
  }
}

/** Returns the body of an answer, or nothing if there is none yet. */
async function json(path) {
  const response = await fetch(path, { cache: "no-store" });
  return response.ok ? response.json() : null;
}
