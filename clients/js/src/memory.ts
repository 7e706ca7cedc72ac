/** A store that ends with its client. */

import { bound, newKey, type State, type Store } from "./state.js";

export function openMemory(given?: Uint8Array): Store {
  const key = given ?? newKey();
  let text = JSON.stringify(bound(undefined, key, "in memory"));
  return {
    key,
    async update(change) {
      const state = JSON.parse(text) as State;
      const result = change(state);
      text = JSON.stringify(state);
      return result;
    },
    close: () => {},
  };
}
