/** The report of an answer, and its frame. */

import type { Query } from "./definition.js";
import { ANSWER, ATTRIBUTE, bytesOf, EVERY_CLASS, joined, ROWS, type Source } from "./source.js";

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
  report.set(joined([bytesOf(BigInt(j), 2), part(j)]));
  return report;
}

/** Return a binary frame of reports of one group, one after another. */
export function frameOf(query: Pick<Query, "digest">, pane: number | bigint, width: number, reports: Uint8Array, group = 0) {
  const header = new Uint8Array(40);
  header.set([0x48, 0x42, 0x42, 0x31, 1]);
  header.set(query.digest, 8);
  const view = new DataView(header.buffer);
  view.setUint16(6, width, true);
  view.setBigInt64(16, BigInt(pane), true);
  view.setUint32(32, reports.length / width, true);
  header[36] = group;
  return joined([header, reports]);
}
