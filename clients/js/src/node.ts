/** What only Node has: a key store in a file. */

import { readPrivate, writePrivate } from "./safe_files.js";
import type { KeyStore } from "./key_item.js";

export * from "./index.js";

/** A key store in a file. Put it into a folder that no backup copies. */
export class FileKeyStore implements KeyStore {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  read(): Uint8Array | undefined {
    return readPrivate(this.#path);
  }

  write(item: Uint8Array): void {
    writePrivate(this.#path, item);
  }
}
