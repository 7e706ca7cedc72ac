// A cache of the board's answers. An event removes the answers that it changes.

import { get } from "./api.js";

const MOST = 100; // answers in the cache

export class Answers {
  #answers = new Map();

  /** Returns the answer at a path. It stays in the cache until one of its subjects is forgotten. */
  get(subjects, path, parameters) {
    const key = JSON.stringify([path, parameters]);
    if (this.#answers.size > MOST) this.clear();
    if (!this.#answers.has(key)) {
      const answer = get(path, parameters);
      this.#answers.set(key, { subjects, answer });
      answer.catch(() => this.#answers.delete(key));
    }
    return this.#answers.get(key).answer;
  }

  forget(subject) {
    for (const [key, { subjects }] of this.#answers) if (subjects.includes(subject)) this.#answers.delete(key);
  }

  clear() {
    this.#answers.clear();
  }
}
