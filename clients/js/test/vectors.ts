/** The golden vectors of tests/vectors, run in Node or in a browser. */

import { pythonFloat } from "../src/canonical.js";
import { answerOf } from "../src/answer.js";
import { Client } from "../src/client.js";
import { Query, type Answer } from "../src/definition.js";
import type { Definition } from "../src/listing.js";
import { HubbubError, NotYet } from "../src/errors.js";
import { exact, rounded } from "../src/exact.js";
import type { Oracle } from "../src/law.js";
import { decide } from "../src/ledger.js";
import { limitsOf, type Limits } from "../src/limits.js";
import { inMemory } from "../src/memory.js";
import { oracle } from "../src/oracle.js";
import { hex, unhex } from "../src/records.js";
import { checkPins } from "../src/pins.js";
import { oneOf } from "../src/items.js";
import { frameOf, reportOf } from "../src/report.js";
import { Keyed, Source } from "../src/source.js";
import { statusOf } from "../src/status.js";
import { MEMORY, opened, type Store } from "../src/store.js";
import { Table } from "../src/table.js";

/** Exactly these bytes. */
class Tape extends Source {
  used = 0;

  constructor(private readonly data: Uint8Array) {
    super();
  }

  take(count: number): Uint8Array {
    this.used += count;
    if (this.used > this.data.length) throw new Error("the bytes are used up");
    return this.data.slice(this.used - count, this.used);
  }

  get left(): number {
    return this.data.length - this.used;
  }
}

export type Vectors = Record<"reports" | "keyed" | "tables" | "frames" | "definitions" | "histories", any>;

/** Return the number of vectors that hold, and a text for each one that does not. */
export async function run(vectors: Vectors): Promise<{ held: number; wrong: string[] }> {
  const result = { held: 0, wrong: [] as string[] };
  const expect = (what: string, got: unknown, wanted: unknown) => {
    if (JSON.stringify(got) === JSON.stringify(wanted)) result.held++;
    else result.wrong.push(`${what}: ${JSON.stringify(got)} instead of ${JSON.stringify(wanted)}`);
  };
  for (const check of [reports, subsets, records, streams, answers, laws, lookedUp, frames, definitions, texts, items]) {
    try {
      check(vectors, expect);
    } catch (error) {
      result.wrong.push(`${check.name}: ${error}`);
    }
  }
  await histories(vectors, expect);
  await lives(vectors, expect);
  return result;
}

/** Return milliseconds of a report, and of a whole answer with a store in memory. */
export async function pace(definition: Definition, value: Answer): Promise<{ report: number; answer: number }> {
  const query = new Query(definition);
  const key = new Uint8Array(32).fill(7);
  const positions = query.positionsOf(value);
  const report = await median(300, (round) => {
    reportOf(query, positions, (a, purpose, classes) => new Keyed(key, query.digest, a, 0, purpose, round, classes));
  });
  let now = 0;
  const client = new Client({
    gateway: "http://127.0.0.1",
    query: definition.name,
    store: ":memory:",
    maxEpsilon: 1e6,
    clock: () => now,
    fetch: (async (url: string) => {
      if (url.endsWith("/queries")) return Response.json({ queries: [{ ...definition, budget: 1e6 }] });
      return Response.json({ accepted: 1 }, { status: 202 });
    }) as typeof fetch,
  });
  const answer = await median(50, async () => {
    now += definition.period;
    await client.answer(value);
  });
  await client.close();
  return { report, answer };
}

/** Return the median of the milliseconds that an act takes. Clocks of browsers are coarse, so it runs in tens. */
async function median(runs: number, act: (run: number) => unknown): Promise<number> {
  const times: number[] = [];
  for (let run = 0; run < runs; run += 10) {
    const start = performance.now();
    for (let i = 0; i < 10; i++) await act(run + i);
    times.push((performance.now() - start) / 10);
  }
  return times.sort((a, b) => a - b)[times.length >> 1]!;
}

type Expect = (what: string, got: unknown, wanted: unknown) => void;

const label = (group: any) => `${group.oracle ?? group.solution} ${group.epsilon} ${group.size ?? group.sizes}`;
const single = (group: any): Oracle => oracle(group.oracle, group.epsilon, group.size, group);

function encoded(made: Oracle, value: number, tape: Source): Uint8Array {
  const rows = made.rows?.(tape) ?? [];
  return made.answer(made.classify(value, rows), rows, tape);
}

function reports({ reports }: Vectors, expect: Expect): void {
  for (const group of reports.oracles) {
    const made = single(group);
    expect(`${label(group)}: width`, made.width, group.width);
    for (const { value, entropy, report } of group.cases) {
      const tape = new Tape(unhex(entropy));
      expect(label(group), [hex(encoded(made, value, tape)), tape.left], [report, 0]);
    }
  }
}

/** Reports that name several buckets. */
function subsets({ reports, keyed }: Vectors, expect: Expect): void {
  for (const group of reports.subsets ?? []) {
    const made = oracle("sub", group.epsilon, group.size, group, undefined, group);
    expect(`${label(group)}: width`, made.width, group.width);
    for (const { value, entropy, report } of group.cases) {
      const tape = new Tape(unhex(entropy));
      expect(label(group), [hex(encoded(made, value, tape)), tape.left], [report, 0]);
    }
  }
  for (const { maps, ...group } of keyed.subsets ?? []) {
    const made = oracle("sub", maps.epsilon, maps.size, group.thresholds, undefined, maps);
    held(made, { ...maps, ...group }, expect, (value) => value);
  }
}

/** Records of several attributes. This client answers no query with rsfd. */
function records({ reports }: Vectors, expect: Expect): void {
  for (const group of reports.solutions.filter((each: any) => each.solution !== "rsfd")) {
    const { solution, sizes, oracles, attributes, attribute_epsilon: epsilon } = group;
    const share = solution === "spl" ? rounded(exact(group.epsilon) / BigInt(sizes.length), false) : group.epsilon;
    expect(`${label(group)}: epsilon of an attribute`, share, epsilon);
    const made: Oracle[] = oracles.map((name: string, j: number) => oracle(name, epsilon, sizes[j], attributes[j]));
    for (const { values, entropy, report } of group.cases) {
      const tape = new Tape(unhex(entropy));
      let got: string;
      if (solution === "spl") got = made.map((each, j) => hex(encoded(each, values[j], tape))).join("");
      else {
        const j = Number(tape.below(BigInt(made.length)));
        got = (hex(new Uint8Array([j, 0])) + hex(encoded(made[j]!, values[j], tape))).padEnd(2 * group.width, "0");
      }
      expect(label(group), [got, tape.left], [report, 0]);
    }
  }
}

function streams({ keyed }: Vectors, expect: Expect): void {
  for (const { key, digest, attribute, mode, purpose, round, classes, bytes } of keyed.streams) {
    const stream = new Keyed(unhex(key), unhex(digest), attribute, mode, purpose, round, classes);
    expect("stream", hex(stream.take(bytes.length / 2)), bytes);
  }
}

function answers({ keyed }: Vectors, expect: Expect): void {
  for (const group of keyed.answers) {
    const made = oracle(group.oracle, group.epsilon, group.size, group.thresholds);
    held(made, group, expect, (value) => value);
  }
}

function lookedUp({ tables }: Vectors, expect: Expect): void {
  for (const group of tables.answers) {
    const made = oracle(group.oracle, group.epsilon, group.size, group.thresholds, group.t);
    held(made, group, expect, () => -1);
  }
}

function held(made: Oracle, group: any, expect: Expect, classOf: (value: number) => number): void {
  const stream = (purpose: number, classes: number[]) =>
    new Keyed(unhex(group.key), unhex(group.digest), 0, 0, purpose, group.round ?? 0, classes);
  const rows = made.rows?.(stream(1, [])) ?? [];
  expect(`${label(group)}: rows`, rows.map(Number), group.rows);
  for (const each of group.cases) {
    const answerClass = made.classify(each.value, rows);
    const report = made.answer(answerClass, rows, stream(2, [classOf(answerClass)]));
    expect(label(group), [answerClass, hex(report)], [each.class, each.report]);
  }
}

function laws({ tables }: Vectors, expect: Expect): void {
  for (const { buckets, epsilon, t, hi, lo, bound, cases } of tables.laws) {
    const law = new Table(buckets, t, BigInt(hi), BigInt(lo));
    expect(`table of ${buckets} at ${epsilon}`, law.bound(epsilon), bound);
    for (const { table, entropy } of cases) {
      const tape = new Tape(unhex(entropy));
      expect(`table of ${buckets} at ${epsilon}`, [law.draw(tape), tape.left], [table, 0]);
    }
  }
}

/** Answers that are texts, by random bytes and by the key of a device. */
function items(vectors: Vectors, expect: Expect): void {
  for (const { items, most, key, period, item } of vectors["items"].cases) {
    expect(`${items}: item of ${most} at ${period}`, oneOf(items, most, unhex(key), BigInt(period)), item);
  }
}

function texts({ strings }: Vectors, expect: Expect): void {
  for (const { canonical, digest, answers, thresholds, width, charge, key, texts, reports } of strings.definitions) {
    const listing = { digest, answers, thresholds, width, period: 86_400, budget: 1e6 };
    const query = new Query({ ...JSON.parse(canonical), ...listing });
    expect(`${canonical}: charge`, rounded(exact(query.charge.epsilon) * BigInt(query.charge.times), true), charge);
    for (const { text, numbers, cells, answer } of texts) {
      const got = query.positionsOf(text);
      const all = cells.map((_: number, part: number) => query.strings!.cell(got, part));
      const mode = Number(answers === "fresh");
      const report = reportOf(query, got, (a, purpose, classes) => new Keyed(unhex(key), query.digest, a, mode, purpose, 0, classes));
      expect(`${canonical}: ${text}`, [got, all, hex(report)], [numbers, cells, answer]);
    }
    for (const { text, entropy, report } of reports) {
      const tape = new Tape(unhex(entropy));
      const got = hex(reportOf(query, query.positionsOf(text), () => tape));
      expect(`${canonical}: ${text}`, [got, tape.left], [report, 0]);
    }
  }
}

/** Binary frames. A client sends no ids, because the gateway gives them. */
function frames({ frames }: Vectors, expect: Expect): void {
  for (const each of frames.good) {
    if (!each.hex || each.tick) continue;
    const query = { digest: unhex(each.digest) };
    const frame = frameOf(query, BigInt(each.pane), each.width, unhex(each.reports), each.group);
    if (each.id) frame.set(unhex(each.id), 24);
    expect(`frame: ${each.name}`, hex(frame), each.hex);
  }
}

function definitions({ definitions }: Vectors, expect: Expect): void {
  for (const { number, text } of definitions.floats) expect(`float ${text}`, pythonFloat(Number(number)), text);
  for (const { name, definition, values, charge } of definitions.good) {
    const query = new Query(definition);
    expect(`${name}: charge`, rounded(exact(query.charge.epsilon) * BigInt(query.charge.times), true), charge);
    for (const { value, positions } of values) {
      let got;
      try {
        got = query.positionsOf(value);
      } catch (error) {
        if (!(error instanceof HubbubError)) throw error;
        got = null;
      }
      expect(`${name}: ${JSON.stringify(value)}`, got, positions);
    }
  }
  for (const { name, definition, pinned } of definitions.refused) {
    let got = "";
    try {
      new Query(definition, pinned);
    } catch (error) {
      got = (error as Error).name;
    }
    expect(`refused: ${name}`, got, "NotAllowed");
  }
  for (const { name, definition, pinned, error } of definitions.outside ?? []) {
    let got: string | null = null;
    try {
      checkPins(pinned);
      new Query(definition, pinned);
    } catch (failure) {
      // Of a pin that is wrong Python tells with a ParameterError.
      got = (failure as Error).name.replace("TypeError", "ParameterError");
    }
    expect(`outside: ${name}`, got, error);
  }
}

/** Lives of a device with one query: what it sends at each time, or why it is silent. */
async function histories({ histories }: Vectors, expect: Expect): Promise<void> {
  for (const { name, key, max_epsilon, group, steps, definition } of histories.filter((life: any) => life.definition)) {
    let now = 0;
    let report: string | undefined;
    const client = new Client({
      gateway: "http://127.0.0.1",
      query: definition.name,
      store: ":memory:",
      key: unhex(key),
      group: group ?? undefined,
      maxEpsilon: max_epsilon,
      clock: () => now,
      fetch: (async (url: string, request: RequestInit) => {
        if (url.endsWith("/queries")) return Response.json({ queries: [definition] });
        report = hex(request.body as Uint8Array);
        return Response.json({ accepted: 1 }, { status: 202 });
      }) as typeof fetch,
    });
    for (const { at, value, frame, error, due, spent } of steps) {
      now = at;
      report = undefined;
      const got: Record<string, unknown> = {};
      try {
        await client.answer(value as Answer);
      } catch (failure) {
        got["error"] = (failure as Error).name;
        if (failure instanceof NotYet) got["due"] = failure.due;
        else if (!(failure instanceof HubbubError)) throw failure;
      }
      const status = await client.status();
      const wanted = { frame: frame ?? undefined, error: error ?? undefined, due: due ?? undefined, spent };
      expect(`${name} at ${at}`, { frame: report, error: got["error"], due: got["due"], spent: status.spent }, wanted);
    }
    await client.close();
  }
}

/** Lives of a device whose listings change. All definitions share a store, which may be lost. */
async function lives({ histories }: Vectors, expect: Expect): Promise<void> {
  for (const life of histories.filter((each: any) => each.definitions)) {
    const limits = limitsOf(life.max_epsilon, life.per);
    let item: Uint8Array | undefined;
    const keyStore = { read: () => item, write: (bytes: Uint8Array) => void (item = bytes) };
    const open = (now: number) => {
      const keys = { key: item ? undefined : unhex(life.key), first: true };
      return opened(inMemory(), MEMORY, life.key_store ? { ...keys, keyStore } : keys, now);
    };
    let store: Store | undefined;
    for (const step of life.steps) {
      if (!store || step.lost) store = await open(step.at);
      const got = await lived(store, new Query(life.definitions[step.definition]), step, limits);
      const text = item && new TextDecoder().decode(item);
      const { frame, error, due, spent, status } = step;
      expect(`${life.name} at ${step.at}`, [...got, text], [frame, error, due, { spent, ...status }, step.item]);
    }
  }
}

/** Return the frame or the error of a step, and the status afterwards. */
async function lived(store: Store, query: Query, { at, value }: any, limits: Limits): Promise<unknown[]> {
  const status = () => store.update((state) => statusOf(state, query, at, limits, store.key));
  const { refusal } = await store.update((state) => decide(state, query, at, limits));
  // Python's client refuses a charge that does not fit when it is made, before it looks at the period.
  const isEarly = refusal && (query.definition.answers !== "fresh" || (await status()).remaining > 0);
  let frame: string | undefined;
  let error: string | undefined;
  let due: number | undefined;
  try {
    frame = (await answerOf(store, query, value, at, limits)).frame;
  } catch (failure) {
    if (!(failure instanceof HubbubError)) throw failure;
    error = isEarly ? "BudgetSpent" : failure.name;
    due = failure instanceof NotYet && !isEarly ? failure.due : undefined;
  }
  await store.update((state) => {
    state.queue = [];
  });
  const { spent, remaining, counted, life, lengthened, queries } = await status();
  return [frame, error, due, { spent, remaining, counted, life, lengthened, queries }];
}
