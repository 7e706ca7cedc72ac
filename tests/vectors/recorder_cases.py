"""Lives of recorders: each kind over each domain that it allows, with clocks that jump, and notes at exact edges.

A client in memory with a known key lives each of them. `record` writes one down as JSON.
"""

import tomllib
from itertools import cycle, product

from oracles.query import parse
from producers import Client, Ledger, NotYet
from producers.client.note_rules import NoteRules

KEYS = ("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "02" * 32)
DAY = 86_400
DOMAINS = {
    "named": 'domain = ["none", "1", "2-4", "5 or more"]',
    "other": 'domain = ["a", "b", "é"]\nother = true',
    "size": "domain = 6",
    "scale": "domain = { low = -2.5, high = 13.5, bins = 16 }",
    "log": 'domain = { low = 0.5, high = 128, bins = 16, scale = "log" }',
}
EMPTY = {"named": '"none"', "other": '"(other)"', "size": "5", "scale": "-1.5", "log": "100"}
EDGES = ", edges = [0, 1, 2, 5]"
KEEPS = {
    "count": ("named", "size", "scale", "log"),
    "max": ("named", "size", "scale", "log"),
    "last": ("named", "other", "size", "scale"),
    "step": ("named", "size", "scale"),
    "days": ("named", "size", "scale"),
    "since": ("named", "size", "log"),
    "age": ("named", "size", "scale"),
}
NUMBERS = [1, 2.5, 7, 0, 3, -1, 1e300, 4.75]
NOTES = {
    "count": [1, None, 3, 2_147_483_647, 2],
    "max": NUMBERS,
    ("last", "named"): ["2-4", "none", "1", "5 or more"],
    ("last", "other"): ["b", "nobody listed it", "e\u0301", "a"],
    ("last", "size"): [3, 0, "5", 1],
    ("last", "scale"): NUMBERS,
    ("step", "named"): ["1", "none", "5 or more", "2-4"],
    ("step", "size"): [2, 0, 4, 1],
    ("step", "scale"): NUMBERS,
}
ANSWERS = [
    'answers = "fresh"\nbudget = 1000.0',
    'answers = "life"\nrenew = "{renew}"\nbudget = 1000.0',
    'answers = "once"\nrenew = "{renew}"',
]
NOTE, ANSWER = "note", "answer"


def times(*steps):
    """Return the steps of a life: a time in periods, and the letters of its acts."""
    acts = {"n": NOTE, "a": ANSWER}
    return [(at, acts[letter]) for at, letters in steps for letter in letters]


LIVES = {
    "each period": times((0.25, "n"), (0.5, "na"), (1.25, "an"), (1.75, "a"), (2.5, "nna"), (3.25, "a"), (4.5, "a")),
    "edges": times((0, "n"), (1, "na"), (1.75, "n"), (2, "an"), (3, "na"), (3, "na"), (4, "a")),
    "skipped": times((0.5, "n"), (2.5, "an"), (3.5, "n"), (4.5, "a"), (6.5, "n"), (8.25, "na"), (9.25, "a")),
    "forward": times((0.5, "n"), (1.5, "na"), (2.5, "n"), (3.5, "an"), (103.5, "na"), (104.5, "a")),
    "back by 1": times((0.5, "n"), (1.5, "n"), (0.75, "na"), (2.25, "an"), (1.25, "na"), (3.25, "a")),
    "back by 2": times((2.5, "n"), (3.5, "an"), (1.25, "na"), (2.25, "na"), (3.75, "na"), (4.25, "an"), (5.25, "a")),
    "back by 100": times((100.5, "n"), (101.5, "an"), (1.25, "na"), (2.25, "an"), (101.75, "an"), (102.5, "a")),
    "there and back": times((0.5, "n"), (1.5, "na"), (101.5, "na"), (1.75, "na"), (2.5, "na"), (102.25, "a")),
    "away": times((0.5, "n"), (1.5, "an"), (1000.5, "na"), (1001.5, "a")),
}


def text_of(keep, domain, answers):
    """Return a query file with one recorder."""
    length = "3d" if keep == "days" else "1d"
    renew = "6d" if keep == "days" else "2d"
    settings = EDGES if domain == "named" and keep not in ("last", "step") else ""
    settings += f", empty = {EMPTY[domain]}" if keep in ("max", "last", "step", "since") else ""
    return (
        f'edition = 2\n[queries.uses]\n{DOMAINS[domain]}\nrecorder = {{ keep = "{keep}"{settings} }}\n'
        f'period = "{length}"\nepsilon = 1.0\npane = "1h"\n{answers.format(renew=renew)}\n'
    )


def notes_of(keep, domain):
    return cycle(NOTES.get((keep, domain)) or NOTES.get(keep) or [None])


def record(text, key, steps):
    """Return a life as JSON. A step is a time and a note, or a time and None for an answer."""
    (query,) = parse(tomllib.loads(text), "the life of a recorder", None).values()
    time_s = steps[0][0]
    ledger = Ledger(":memory:", bytes.fromhex(key), first=True)
    client = Client(query, ledger, max_epsilon=1e6, clock=lambda: time_s)
    rules = NoteRules(query.recorder, query.domain)

    life = []
    for time_s, act, note in steps:
        if act == NOTE:
            client.note(note)
            life.append({"at": time_s, "note": note})
            continue
        try:
            report = client.answer()
        except NotYet as error:
            life.append({"at": time_s, "not_yet": error.due})
        else:
            position = rules.answer(ledger.notes.update(query.digest, lambda state: state))
            life.append({"at": time_s, "answer": position, "report": bytes(report[0]).hex()})
    return {"query": text, "key": key, "steps": life}


def recorders():
    """Return all lives."""
    kinds = [(keep, domain) for keep, domains in KEEPS.items() for domain in domains]
    lives = list(LIVES)
    cases = []
    for number, ((keep, domain), turn) in enumerate(product(kinds, range(3))):
        # Three lives of each kind, so that all kinds of lives and answers meet.
        name = lives[(number + turn * len(kinds)) % len(lives)]
        text = text_of(keep, domain, ANSWERS[(number + number // 3) % len(ANSWERS)])
        length = 3 * DAY if keep == "days" else DAY
        notes = notes_of(keep, domain)
        steps = [(int((7_000 + at) * length), act, next(notes) if act == NOTE else None) for at, act in LIVES[name]]
        cases.append(record(text, KEYS[number % len(KEYS)], steps))
    return cases
