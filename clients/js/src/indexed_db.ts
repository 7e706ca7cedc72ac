/** A store in the browser's IndexedDB. Its transactions order all tabs of an origin. */

import { StoreError } from "./errors.js";
import { bound, newKey, refuseHalf, type State, type Store } from "./state.js";

const TABLE = "device";

export async function openStore(name: string, given?: Uint8Array): Promise<Store> {
  // The browser may refuse. Then it deletes the store if the disk gets full.
  void navigator.storage?.persist?.();
  const database = await connected(name);
  database.onversionchange = () => database.close();
  const device = { key: given! };
  await step(database, name, (state, key, table) => {
    refuseHalf(state, !!key, !!given, name);
    device.key = given ?? key ?? newKey();
    const opened = bound(state, device.key, name);
    if (!given && !key) table.put(device.key, "key");
    return [undefined, opened];
  });
  return {
    key: device.key,
    update: (change) =>
      step(database, name, (state) => {
        if (!state) throw new StoreError(`Store ${name} was cleared. Reload the page: it is a new device.`);
        return [change(state), state];
      }),
    close: () => database.close(),
  };
}

function connected(name: string): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(TABLE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(new StoreError(`Store ${name} cannot be opened: ${request.error?.message}`));
  });
}

type Step<T> = (state: State | undefined, key: Uint8Array | undefined, table: IDBObjectStore) => [T, State];

/** Read state and key, and write the new state, in one transaction. */
function step<T>(database: IDBDatabase, name: string, change: Step<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const failed = (error: unknown) => reject(new StoreError(`Store ${name} cannot be used: ${error}`));
    try {
      const transaction = database.transaction(TABLE, "readwrite", { durability: "strict" });
      const table = transaction.objectStore(TABLE);
      const state = table.get("state");
      const key = table.get("key");
      let result: T;
      key.onsuccess = () => {
        try {
          const [answer, next] = change(state.result, key.result, table);
          result = answer;
          table.put(next, "state");
        } catch (error) {
          reject(error);
          transaction.abort();
        }
      };
      transaction.oncomplete = () => resolve(result);
      transaction.onabort = transaction.onerror = () => failed(transaction.error);
    } catch (error) {
      failed(error);
    }
  });
}
