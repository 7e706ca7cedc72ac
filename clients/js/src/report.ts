/** The report of an answer, and its frame. */

import type { Query } from "./definition.js";
import { utf8 } from "./records.js";
import { ANSWER, ATTRIBUTE, bytesOf, EVERY_CLASS, joined, ROWS, type Source } from "./source.js";

const VERSION = 1;
/** The gateway gives a frame its id. */
const NO_ID = new Uint8Array(8);

/** Return the stream of an attribute, a purpose and classes. */
export type Streams = (attribute: number, purpose: number, classes: number[]) => Source;

/** Return the report of an answer's positions. */
export function reportOf(query: Query, answer: number[], streams: Streams): Uint8Array {
  const { strings, parts, definition } = query;
  const positions = query.withPairs(answer);
  const part = (j: number) => {
    const { oracle } = strings ? parts[0]! : parts[j]!;
    const rows = oracle.rows?.(streams(j, ROWS, [])) ?? [];
    const answerClass = oracle.classify(strings ? strings.cell(answer, j) : positions[j]!, rows);
    return oracle.answer(answerClass, rows, streams(j, ANSWER, [oracle.table ? EVERY_CLASS : answerClass]));
  };
  if (!strings && definition.solution !== "smp") return joined(parts.map((_, j) => part(j)));
  const draws = streams(0, ATTRIBUTE, []);
  const j = strings ? strings.part(draws) : Number(draws.below(BigInt(parts.length)));
  const report = new Uint8Array(definition.width);
  report.set(joined([bytesOf(j, 2), part(j)]));
  return report;
}

/** Return a binary frame of reports of one group, one after another. */
export function frameOf(query: Pick<Query, "digest">, pane: number | bigint, width: number, reports: Uint8Array, group = 0) {
  const count = reports.length / width;
  return joined([
    utf8("HBB1"),
    bytesOf(VERSION, 2),
    bytesOf(width, 2),
    query.digest,
    bytesOf(pane, 8),
    NO_ID,
    bytesOf(count, 4),
    bytesOf(group, 4),
    reports,
  ]);
}
