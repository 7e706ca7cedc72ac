/** A store in a file of Node, with its key beside it. Bundlers for browsers do not load this module. */

import * as files from "node:fs";
import { StoreError } from "./errors.js";
import { bound, newKey, refuseHalf, type State, type Store } from "./state.js";

const PATIENCE = 30_000;
const PAUSE = 5;

export async function openStore(path: string, given?: Uint8Array): Promise<Store> {
  const keyPath = `${path}.key`;
  let key!: Uint8Array;
  await guarded(path, () => {
    const state = read(path);
    const stored = files.existsSync(keyPath);
    refuseHalf(state, stored, !!given, path);
    key = given ?? (stored ? new Uint8Array(files.readFileSync(keyPath)) : newKey());
    const opened = bound(state, key, path);
    if (!given && !stored) write(keyPath, key);
    write(path, JSON.stringify(opened));
  });
  return {
    key,
    update: (change) =>
      guarded(path, () => {
        const state = read(path);
        if (!state) throw new StoreError(`Store ${path} is missing. Restore it.`);
        const result = change(state);
        write(path, JSON.stringify(state));
        return result;
      }),
    close: () => {},
  };
}

function read(path: string): State | undefined {
  if (!files.existsSync(path)) return undefined;
  try {
    return JSON.parse(files.readFileSync(path, "utf8")) as State;
  } catch (error) {
    throw new StoreError(`Store ${path} is damaged: ${error}. Restore it.`);
  }
}

/** Write a file that is whole at any time: a draft gets the name when all bytes are on disk. */
function write(path: string, data: string | Uint8Array): void {
  const draft = `${path}.new`;
  const file = files.openSync(draft, "w", 0o600);
  try {
    files.writeFileSync(file, data);
    files.fsyncSync(file);
  } finally {
    files.closeSync(file);
  }
  files.renameSync(draft, path);
}

/** Act while no other process does. The lock is a file with the number of its process. */
async function guarded<T>(path: string, act: () => T): Promise<T> {
  const lock = `${path}.lock`;
  const patience = Date.now() + PATIENCE;
  for (;;) {
    try {
      files.writeFileSync(lock, String(process.pid), { flag: "wx" });
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw failure(path, error);
      if (Date.now() > patience) throw new StoreError(`Store ${path} is in use: ${lock} exists.`);
      if (ended(lock)) clear(lock);
      else await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  }
  try {
    return act();
  } catch (error) {
    throw (error as NodeJS.ErrnoException).syscall ? failure(path, error) : error;
  } finally {
    files.rmSync(lock, { force: true });
  }
}

/**
 * Remove the lock of a process that has ended. Only one process at a time does it. Otherwise the second one would remove
 * the new lock of the first one.
 */
function clear(lock: string): void {
  const broom = `${lock}.ended`;
  try {
    files.writeFileSync(broom, "", { flag: "wx" });
  } catch {
    return;
  }
  if (ended(lock)) files.rmSync(lock, { force: true });
  files.rmSync(broom, { force: true });
}

/** Whether the process of a lock has ended. */
function ended(lock: string): boolean {
  try {
    const owner = Number(files.readFileSync(lock, "utf8"));
    if (!owner) return false;
    process.kill(owner, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
  return false;
}

function failure(path: string, error: unknown): StoreError {
  return new StoreError(`Store ${path} cannot be used: ${error}`);
}
