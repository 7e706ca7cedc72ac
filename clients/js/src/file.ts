/** A store in a file of Node, with its key beside it. Bundlers for browsers do not load this module. */

import { StoreError } from "./errors.js";
import { Lock } from "./lock.js";
import { readPrivate, removePrivate, writePrivate } from "./safe_files.js";
import type { Place, Stored } from "./store.js";

/** Return the place of a store. With `keyed` the application has a key store, and answers hold a lock of their own. */
export async function openPlace(path: string, keyed: boolean): Promise<Place> {
  const keyPath = `${path}.key`;

  /** Change what is stored. Return nothing if another process took the lock over meanwhile. */
  function changed<T>(lock: Lock, change: (stored: Stored) => T): [T] | undefined {
    const bytes = readPrivate(path);
    const text = bytes && new TextDecoder().decode(bytes);
    const key = readPrivate(keyPath);
    const stored: Stored = { state: text === undefined ? undefined : parsed(text, path), key };
    const result = change(stored);

    // A store without charges may lack its key, so the state comes first.
    const next = JSON.stringify(stored.state);
    if (next !== text && !writePrivate(path, next, lock.isHeld)) return undefined;
    if (stored.key && stored.key !== key) writePrivate(keyPath, stored.key);
    if (!stored.key && key) removePrivate(keyPath);
    return [result];
  }

  return {
    step: (change) =>
      failing(path, async () => {
        for (;;) {
          const lock = await Lock.acquire(`${path}.lock`);
          try {
            const done = changed(lock, change);
            if (done) return done[0];
          } finally {
            lock.release();
          }
        }
      }),
    async alone(act) {
      if (!keyed) return act();
      const lock = await failing(path, () => Lock.acquire(`${path}.item.lock`));
      return lock.during(act);
    },
    close() {},
  };
}

function parsed(text: string, path: string): Stored["state"] {
  try {
    return JSON.parse(text) as Stored["state"];
  } catch (error) {
    throw new StoreError(`Store ${path} is damaged: ${error}. Restore it.`);
  }
}

/** Act on files. An error of the system is a StoreError. */
async function failing<T>(path: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw (error as NodeJS.ErrnoException).syscall ? new StoreError(`Store ${path} cannot be used: ${error}`) : error;
  }
}
