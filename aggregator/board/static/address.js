// The settings of the page. Its address holds them all, so a link restores exactly what is seen.

export class Address {
  #settings = new URLSearchParams(location.hash.slice(1));

  /** Calls `onChange` when the reader follows a link within the page. */
  constructor(onChange) {
    window.addEventListener("hashchange", () => {
      this.#settings = new URLSearchParams(location.hash.slice(1));
      onChange();
    });
  }

  get(name) {
    return this.#settings.get(name);
  }

  has(name) {
    return this.#settings.has(name);
  }

  /** Writes settings into the address. Null removes one. */
  set(changes) {
    this.#settings = new URLSearchParams(this.link(changes).slice(1));
    window.history.replaceState(null, "", `#${this.#settings}`);
  }

  /** Returns the address with other settings. */
  link(changes) {
    const settings = new URLSearchParams(this.#settings);
    for (const [key, value] of Object.entries(changes)) {
      if (value === null || value === undefined) settings.delete(key);
      else settings.set(key, value);
    }
    return `#${settings}`;
  }
}
