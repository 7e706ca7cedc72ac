/** The store of a device and its key: what is made at a first start, and what is refused if a part is lost. */

import { attempt, StoreError } from "./errors.js";
import { itemOf, readItem, restore, type KeyStore } from "./key_item.js";
import { hex, unhex } from "./records.js";
import { bound, newKey, type State } from "./state.js";

/** What lies in one place: the state, and the key if no application keeps it. */
export interface Stored {
  state?: State | undefined;
  key?: Uint8Array | undefined;
}

/** A place of a store: a file, IndexedDB or memory. */
export interface Place {
  /** Change what is stored in one atomic step that is on disk afterwards. If `change` throws, nothing changes. */
  step<T>(change: (stored: Stored) => T): Promise<T>;
  /** Act while no other process or tab does. */
  alone<T>(act: () => Promise<T>): Promise<T>;
  close(): void;
}

export interface Keys {
  key?: Uint8Array | undefined;
  keyStore?: KeyStore | undefined;
  first?: boolean | undefined;
}

export interface Store extends Pick<Place, "alone" | "close"> {
  readonly key: Uint8Array;
  update<T>(change: (state: State) => T): Promise<T>;
  /** Return the key item of the state, if there is a key store. It throws if the item has no room. */
  itemOf(state: State): Uint8Array | undefined;
  write(item: Uint8Array | undefined): Promise<unknown>;
}

export const MEMORY = ":memory:";

/** Open a store. */
export function opened(place: Place, name: string, { key: given, keyStore, first }: Keys, now: number): Promise<Store> {
  const refuse = (problem: string): never => {
    throw new StoreError(`Store ${name} ${problem}`);
  };
  const update: Store["update"] = (change) =>
    place.step(({ state }) => change(state ?? refuse("was deleted. Restore it.")));
  return place.alone(async () => {
    const bytes = await guarded(() => keyStore?.read());
    const item = bytes && readable(() => readItem(bytes));
    const key = await place.step((stored) => {
      const { state, key: own } = stored;
      const hasKey = item || given || own || !state?.charges?.length;
      if (item && given && hex(given) !== item.key) refuse("has another key.");
      if (!hasKey) refuse("has lost its key. Restore it.");
      if (!state && !item) {
        if (own) refuse("is missing. Restore it.");
        if (given && !first && name !== MEMORY) refuse("is missing. Pass `first: true` at a first start.");
      }
      const key = item ? unhex(item.key) : (given ?? own ?? newKey());
      stored.state = bound(state, key, name, now);
      if (item) readable(() => restore(stored.state!, item));
      if (!given && !keyStore) stored.key = key;
      return key;
    });
    const makeItem = (state: State) => keyStore && itemOf(state, key);
    const write = (item: Uint8Array | undefined) => guarded(() => item && keyStore!.write(item));
    await write(await update(makeItem));
    if (keyStore) {
      await place.step((stored) => {
        if (stored.key && hex(stored.key) === hex(key)) stored.key = undefined;
      });
    }
    return { key, update, itemOf: makeItem, write, alone: place.alone, close: place.close };
  });
}

/** Act on a key store. Its errors stop an answer. */
async function guarded<T>(act: () => T): Promise<Awaited<T>> {
  try {
    return await act();
  } catch (error) {
    throw new StoreError(`The key store cannot be used: ${error}`);
  }
}

/** Act on a key item. */
const readable = <T>(act: () => T): T => attempt(act, () => new StoreError("The key item is damaged. Restore it."));
