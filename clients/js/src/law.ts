/** The law of an oracle: what all oracles do with a position. */

import type { Source } from "./source.js";
import type { Table } from "./table.js";

/** A client's draws that do not depend on its value. */
export type Rows = bigint[];

export interface Oracle {
  /** Bytes of a report. */
  width: number;
  /** Number of different answers of a client that repeats itself. */
  classes: number;
  /** The client's table, or nothing if each class has noise of its own. */
  table?: Table | undefined;
  rows?(source: Source): Rows;
  classify(position: number, rows: Rows): number;
  /** Return the report of a class. */
  answer(answerClass: number, rows: Rows, source: Source): Uint8Array;
}
