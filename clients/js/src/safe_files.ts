/** Private files of Node: whole at any time, and of nobody else. */

import * as files from "node:fs";
import { dirname, join } from "node:path";
import { StoreError } from "./errors.js";

const { O_CREAT, O_EXCL, O_NOFOLLOW = 0, O_NONBLOCK = 0, O_RDONLY, O_WRONLY } = files.constants;
/** Rights of others to a file. */
const OTHERS = 0o077;
/** The right of everybody to write to a folder, and the bit that keeps them from the files of one another. */
const WRITE = 0o002;
const STICKY = 0o1000;
/** Windows has neither users nor rights of this kind. */
const user = process.getuid?.();

/** Return the bytes of a private file, or nothing if there is none. */
export function readPrivate(path: string): Uint8Array | undefined {
  return read(path, (file) => {
    if (user !== undefined && file.mode & OTHERS) throw problem(path, "is open to other users", `chmod 600 ${quoted(path)}`);
  });
}

/** Return the bytes of a regular file of this user, or nothing if there is none. */
export function read(path: string, check: (file: files.Stats) => void): Uint8Array | undefined {
  let file: number;
  try {
    // A FIFO would keep this process waiting, and a link leads to a file of somebody else.
    file = files.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return undefined;
    if (code === "ELOOP" || code === "ENXIO") throw problem(path, "is not a regular file", `rm ${quoted(path)}`);
    throw error;
  }
  try {
    const about = files.fstatSync(file);
    if (!about.isFile()) throw problem(path, "is not a regular file", `rm -r ${quoted(path)}`);
    if (user !== undefined && about.uid !== user) {
      throw problem(path, "is a file of another user", `sudo chown ${user} ${quoted(path)}`);
    }
    check(about);
    return new Uint8Array(files.readFileSync(file));
  } finally {
    files.closeSync(file);
  }
}

/** Write a private file. A draft gets the name when all bytes are on disk, and if `isAllowed` says so. */
export function writePrivate(path: string, data: string | Uint8Array, isAllowed = () => true): boolean {
  checkFolder(path);
  const draft = `${path}.new`;
  // What an earlier process left. Opening it could write into a file of somebody else.
  files.rmSync(draft, { force: true });
  const file = files.openSync(draft, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o600);
  try {
    files.writeFileSync(file, data);
    files.fsyncSync(file);
  } finally {
    files.closeSync(file);
  }
  if (!isAllowed()) return false;
  files.renameSync(draft, path);
  syncFolder(path);
  return true;
}

export function removePrivate(path: string): void {
  files.rmSync(path, { force: true });
  syncFolder(path);
}

/** Refuse a folder in which everybody could replace files. */
export function checkFolder(path: string): void {
  const folder = dirname(path);
  const { mode, uid } = files.statSync(folder);
  if (user === undefined || !(mode & WRITE) || (mode & STICKY && uid === 0)) return;
  const command = uid === user ? `chmod o-w ${quoted(folder)}` : `mkdir -m 700 ${quoted(join(folder, "hubbub"))}`;
  throw problem(folder, "is a folder in which everybody may write", command);
}

/** A name is on disk only after its folder is. A power failure could lose the charges of a report. */
function syncFolder(path: string): void {
  if (process.platform === "win32") return;
  const folder = files.openSync(dirname(path), O_RDONLY);
  try {
    files.fsyncSync(folder);
  } finally {
    files.closeSync(folder);
  }
}

function problem(path: string, text: string, command: string): StoreError {
  return new StoreError(`${path} ${text}. Run: ${command}`);
}

const quoted = (path: string) => `'${path.replaceAll("'", `'\\''`)}'`;
