/** A store in the browser's IndexedDB. Its transactions order all tabs of an origin. */

import { StoreError } from "./errors.js";
import type { Place, Stored } from "./store.js";

const TABLE = "device";

export async function openPlace(name: string): Promise<Place> {
  // The browser may refuse. Then it deletes the store if the disk gets full.
  void navigator.storage?.persist?.();
  const database = await connected(name);
  database.onversionchange = () => database.close();
  return {
    step: (change) => step(database, name, change),
    async alone<T>(act: () => Promise<T>) {
      const { locks } = navigator;
      return locks ? ((await locks.request(`hubbub ${name}`, act)) as T) : act();
    },
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

/** Read state and key, and write the new ones, in one transaction. */
function step<T>(database: IDBDatabase, name: string, change: (stored: Stored) => T): Promise<T> {
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
          const stored: Stored = { state: state.result, key: key.result };
          result = change(stored);
          table.put(stored.state, "state");
          if (!stored.key) table.delete("key");
          else if (!key.result) table.put(stored.key, "key");
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
