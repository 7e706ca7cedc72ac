/** A lock between processes: a file that its owner makes and removes. */

import * as files from "node:fs";
import { StoreError } from "./errors.js";
import { checkFolder, read } from "./safe_files.js";

/** Milliseconds without a change after which a lock is taken over, whatever it holds. Its owner has ended. */
const STALE = 10_000;
/** Milliseconds after which a waiter gives up if other processes still change the lock. */
const PATIENCE = 30_000;
/** Milliseconds between two changes of a lock that is held for long. */
const RENEWAL = 1_000;
const PAUSE = 5;

export class Lock {
  readonly #path: string;
  readonly #token: string;

  private constructor(path: string, token: string) {
    this.#path = path;
    this.#token = token;
  }

  /** Wait for a lock. */
  static async acquire(path: string): Promise<Lock> {
    checkFolder(path);
    const token = crypto.randomUUID();
    const begun = performance.now();
    let seen = "";
    let changed = begun;
    for (;;) {
      if (made(path, token)) return new Lock(path, token);
      const now = performance.now();
      const state = stateOf(path);
      if (state !== seen) {
        if (now - begun > PATIENCE) throw new StoreError(`${path} is in use: another process changes it.`);
        seen = state;
        changed = now;
      } else if (state && now - changed > STALE && stateOf(path) === seen) files.rmSync(path, { force: true });
      // A random pause, so that no process is always the last.
      await new Promise((resolve) => setTimeout(resolve, PAUSE * (0.5 + Math.random())));
    }
  }

  /** Whether no other process has taken the lock over. */
  isHeld = (): boolean => textOf(this.#path) === this.#token;

  /** Keep the lock while an act takes long. */
  async during<T>(act: () => Promise<T>): Promise<T> {
    const renew = () => {
      if (this.isHeld()) files.utimesSync(this.#path, new Date(), new Date());
    };
    const timer = setInterval(renew, RENEWAL);
    try {
      return await act();
    } finally {
      clearInterval(timer);
      this.release();
    }
  }

  release(): void {
    if (this.isHeld()) files.rmSync(this.#path, { force: true });
  }
}

/** Make the file of a lock, if there is none. */
function made(path: string, token: string): boolean {
  try {
    files.writeFileSync(path, token, { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    return false;
  }
}

/** Return a text that changes whenever the lock does. It is empty without a lock. */
function stateOf(path: string): string {
  let about = "";
  const text = textOf(path, ({ ino, mtimeMs }) => {
    about = `${ino} ${mtimeMs}`;
  });
  return text === undefined ? "" : `${about} ${text}`;
}

function textOf(path: string, check: (file: files.Stats) => void = () => {}): string | undefined {
  const bytes = read(path, check);
  return bytes && new TextDecoder().decode(bytes);
}
