"""Unknown strings: their codes and cells, and the reports of clients."""

from definition_cases import query_of

from producers import Client

KEY = bytes(range(32))
PERIOD = 86_400
AT = 1_700_000_000
TEXTS = [
    "",
    "oom",
    "TypeError: x is undefined",
    "TypeError: x is undefined at main.js",
    "naive cafe\u0301",
    "na\u00efve caf\u00e9",
    "\u65e5\u672c\u8a9e\u306e\u30af\u30e9\u30c3\u30b7\u30e5",
    "A" * 130,
    "tab\tand\nline",
    "a\x00b",
    "\U0001f41d",
    "cut\u2026",
]
DEFINITIONS = [
    {"domain": {"discover": "text", "length": 24}, "epsilon": 2.0},
    {"domain": {"discover": "bytes", "length": 24}, "epsilon": 4.0},
    {
        "domain": {"discover": "text", "length": 5, "alphabet": "abcdef\u00e9 ", "cells": 12},
        "epsilon": 0.25,
        "normal": "NFC",
    },
    {"domain": {"discover": "text", "length": 24, "cells": 14}, "epsilon": 4.0, "answers": "once"},
    {
        "domain": {"discover": "bytes", "length": 3, "cells": 13},
        "epsilon": 1.0,
        "noise": "each",
        "normal": "NFC lower",
    },
    {
        "domain": {"discover": "text", "length": 64, "alphabet": "xyXY"},
        "epsilon": 2.0,
        "answers": "fresh",
        "normal": "none",
    },
]


def strings(tape):
    """Return for each definition the codes of texts, reports made of random bytes, and answers of a key."""
    return {"definitions": [about(query_of({"pane": "5m", **each}, "crashes"), tape) for each in DEFINITIONS]}


def about(query, tape):
    strings = query.strings
    group = {"canonical": query.canonical, "digest": query.digest.hex(), "answers": query.answers}
    group |= {"chunks": strings.chunks, "slots": strings.slots, "charge": query.record_charge, "key": KEY.hex()}
    group |= {"thresholds": query.thresholds, "width": query.oracle.width}
    texts = []
    for text in TEXTS:
        numbers, cells = strings.numbers(text), strings.cells_of(text)
        about_text = {"text": text, "name": strings.text(numbers), "numbers": numbers.tolist(), "cells": cells.tolist()}
        texts.append({**about_text, "answer": answer(query, text)})
    return {**group, "texts": texts, "reports": reports(query, tape)}


def answer(query, text):
    """Return the first answer of a device with the key."""
    client = Client(query, ":memory:", key=KEY, max_epsilon=1000.0, clock=lambda: float(AT))
    return client.answer(text).tobytes().hex()


def reports(query, tape):
    """Return reports of random bytes, of many levels and maps."""
    cases = []
    for number in range(8):
        text = TEXTS[number]
        source = tape(f"strings/{query.digest.hex()}/{number}")
        report = query.oracle.perturb(query.strings.cells_of(text)[None, :], source)
        cases.append({"text": text, "entropy": source.used.hex(), "report": report.tobytes().hex()})
    return cases
