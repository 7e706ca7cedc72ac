// The board's answers that still hold: each is asked for again only once an event has said that it changed.

import { get } from "./api.js";

const MOST = 100;

export class Answers {
  #kept = new Map();

  /** The answer at a path; it holds until one of its subjects is forgotten. */
  get(subjects, path, parameters) {
    const key = JSON.stringify([path, parameters]);
    if (this.#kept.size > MOST) this.clear();
    if (!this.#kept.has(key)) {
      const answer = get(path, parameters);
      this.#kept.set(key, { subjects, answer });
      answer.catch(() => this.#kept.delete(key));
    }
    return this.#kept.get(key).answer;
  }

  forget(subject) {
    for (const [key, { subjects }] of this.#kept) if (subjects.includes(subject)) this.#kept.delete(key);
  }

  clear() {
    this.#kept.clear();
  }
}
