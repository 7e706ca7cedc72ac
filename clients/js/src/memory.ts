/** A store that ends with its client. */

import type { Place, Stored } from "./store.js";

export function inMemory(): Place {
  let text = "{}";
  let key: Uint8Array | undefined;
  let acts: Promise<unknown> = Promise.resolve();
  return {
    async step(change) {
      const stored: Stored = { state: JSON.parse(text).state, key };
      const result = change(stored);
      text = JSON.stringify({ state: stored.state });
      key = stored.key;
      return result;
    },
    alone(act) {
      const result = acts.then(act);
      acts = result.catch(() => {});
      return result;
    },
    close() {},
  };
}
