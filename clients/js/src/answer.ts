/** An answer of a device: charged first, then perturbed with the device key, then put into the queue. */

import type { Answer, Query } from "./definition.js";
import { BudgetSpent, DeliveryError, NotYet } from "./errors.js";
import * as ledger from "./ledger.js";
import type { Limits } from "./limits.js";
import { hex, unhex } from "./records.js";
import { frameOf, reportOf } from "./report.js";
import { Keyed } from "./source.js";
import { firstReport, FRESH, type Entry, type State } from "./state.js";
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
  const mode = ledger.modeOf(query);
  const [round, number] = await store.update((state): [round: number, number: number] => {
    if (state.queue.length >= ROOM) throw new DeliveryError(`The queue is full: ${ROOM} reports wait.`);
    ledger.checkPeriod(state, query, now, store.key);
    const round = ledger.charge(state, query, now, limits);
    if (answers === "once") checkLost(state, query, now, round, store.key);
    store.itemOf(state); // without room for the item nothing is charged
    return [round, mode === FRESH ? (state.given[digest] ?? 0) : round];
  });
  const positions = query.positionsOf(value);
  const made = reportOf(
    query,
    positions,
    (attribute, purpose, classes) => new Keyed(store.key, query.digest, attribute, mode, purpose, number, classes),
  );
  const { entry, item } = await store.update((state) => {
    ledger.checkPeriod(state, query, now, store.key);
    const report = answers === "once" ? repeated(state, digest, round, made) : made;
    if (mode === FRESH) state.given[digest] = number + 1;
    else if (!state.once[digest]?.report) delete state.once[digest];
    state.last = { ...state.last, [name]: now }; // an assignment to the member `__proto__` would make none
    const frame = frameOf(query, Math.floor(now / pane) * pane, report.length, report, query.groupOf(group));
    const entry = { key: hex(crypto.getRandomValues(new Uint8Array(16))), frame: hex(frame) };
    const item = store.itemOf(state);
    if (!item) state.queue.push(entry);
    return { entry, item };
  });
  if (item) {
    // A floor that is written later than the report leaves would be too low after a crash.
    await store.write(item);
    await store.update((state) => state.queue.push(entry));
  }
  return entry;
}

/** Refuse a second report of a round. The key item knows the first one, which a lost or old store lacks. */
function checkLost(state: State, query: Query, now: number, round: number, key: Uint8Array): void {
  const { name, digest, renew } = query.definition;
  if (state.lost[digest] !== round || firstReport(state, digest, round)) return;
  const problem = `The report of ${name} in this round is lost.`;
  if (!renew) throw new BudgetSpent(problem);
  const next = (Math.floor(Math.max(now, round) / renew) + 1) * renew;
  throw new NotYet(problem, ledger.dueTime(state, query, next, key));
}

/** Return the first report of a round: for answers once. */
function repeated(state: State, digest: string, round: number, report: Uint8Array): Uint8Array {
  const first = firstReport(state, digest, round);
  if (first) return unhex(first);
  state.once[digest] = { round, report: hex(report) };
  return report;
}
