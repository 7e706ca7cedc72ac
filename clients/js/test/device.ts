/** A program for `hubbub probe`: each line of values is the life of one device. */

import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { Client } from "../src/client.js";
import type { Definition } from "../src/listing.js";
import { hex } from "../src/records.js";

/** Return the reports of each line, in hex digits. The keys of the devices follow from a seed. */
export async function reports(definition: Definition, lines: string[], seed: string): Promise<string[]> {
  const written: string[] = [];
  const bytes = new TextEncoder();
  for (const [number, line] of lines.entries()) {
    let now = 0;
    const row: string[] = [];
    const client = new Client({
      gateway: "http://127.0.0.1",
      query: definition.name,
      store: ":memory:",
      key: hmac(sha256, bytes.encode(seed), bytes.encode(String(number))),
      maxEpsilon: 1e6,
      clock: () => now,
      fetch: (async (url: string, request: RequestInit) => {
        if (url.endsWith("/queries")) return Response.json({ queries: [definition] });
        row.push(hex((request.body as Uint8Array).subarray(40)));
        return Response.json({ accepted: 1 }, { status: 202 });
      }) as typeof fetch,
    });
    for (const value of line.split(" ")) {
      await client.answer(Number(value));
      now += definition.period;
    }
    await client.close();
    written.push(row.join(" "));
  }
  return written;
}
