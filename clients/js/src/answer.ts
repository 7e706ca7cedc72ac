/** An answer of a device: charged first, then perturbed with the device key, then put into the queue. */

import type { Answer, Query } from "./definition.js";
import { BudgetSpent, DeliveryError, NotYet } from "./errors.js";
import * as ledger from "./ledger.js";
import type { Limits } from "./limits.js";
import { hex, put, unhex } from "./records.js";
import { frameOf, reportOf } from "./report.js";
import { Keyed } from "./source.js";
import { FRESH, type Entry, type State } from "./state.js";
import type { Store } from "./store.js";

/** Most frames in the queue. */
const ROOM = 1000;

/** Charge an answer, or refuse it, before the value is read. Then put its report into the queue. */
export async function answerOf(
  store: Store,
  query: Query,
  value: Answer,
  now: number,
  limits: Limits,
  group?: string,
): Promise<Entry> {
  const { name, digest, answers, pane } = query.definition;
  const paid = await store.update((state) => {
    if (state.queue.length >= ROOM) throw new DeliveryError(`The queue is full: ${ROOM} reports wait for ${name}.`);
    ledger.checkPeriod(state, query, now, store.key);
    const round = ledger.charge(state, query, now, limits);
    if (answers === "once") checkLost(state, query, now, round, store);
    return { round, given: state.given[digest] ?? 0, item: store.itemOf(state) };
  });
  // A floor that is written later than the report leaves would be too low after a crash.
  await store.write(paid.item);
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
    put(state.last, name, now);
    const frame = frameOf(query, Math.floor(now / pane) * pane, report.length, report, query.groupOf(group));
    const entry = { key: hex(crypto.getRandomValues(new Uint8Array(16))), frame: hex(frame) };
    state.queue.push(entry);
    return entry;
  });
}

/** Refuse a second report of a round. The key item knows the first one, which a lost or old store lacks. */
function checkLost(state: State, query: Query, now: number, round: number, { key, known }: Store): void {
  const { name, digest, renew } = query.definition;
  if (known[digest]?.[0] !== round || state.once[digest]?.round === round) return;
  const problem = `The store has lost the report of ${name} in this round.`;
  if (!renew) throw new BudgetSpent(problem);
  const next = (Math.floor(Math.max(now, round) / renew) + 1) * renew;
  throw new NotYet(problem, ledger.dueTime(state, query, next, key));
}

/** Return the first report of a round: for answers once. */
function repeated(state: State, digest: string, round: number, report: Uint8Array): Uint8Array {
  const first = state.once[digest];
  if (first?.round === round) return unhex(first.report);
  state.once[digest] = { round, report: hex(report) };
  return report;
}
