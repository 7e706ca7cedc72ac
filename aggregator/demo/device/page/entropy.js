// Random bytes from the browser's cryptographic entropy.

/** Returns so many random bytes. */
export const randomBytes = (count) => crypto.getRandomValues(new Uint8Array(count));

/** Returns a source of the bytes of a long random text, which costs less for a crowd than many short ones. */
export function randomBlocks(size = 4096) {
  let block = new Uint8Array(0);
  let at = 0;
  return (count) => {
    if (at + count > block.length) [block, at] = [randomBytes(Math.max(size, count)), 0];
    at += count;
    return block.subarray(at - count, at);
  };
}
