"""Random lives with every oracle and kind of answer, with Python's client as the judge."""

import sys

import numpy as np

from oracles.errors import HubbubError
from oracles.query import parse
from tests.core.compiler import ROOT
from tests.vectors.life_cases import DAY, Life, Step

sys.path.insert(0, str(ROOT / "tests" / "vectors"))
from random_lives import _LIMITS, _RENEWS, _move

STEPS = 12
NAMES = ["a", "b", "café"]
DOMAINS = (2, 5, 64, 300, NAMES, [f"v{i}" for i in range(40)])
BITS = ("grr", "sue", "oue", "ss")
ROWS = ("blh", "olh", "full", "short", "hr", "sub")
LINEAR = {"low": -2.5, "high": 1000.0, "bins": 32}
LOGARITHMIC = {"low": 0.001, "high": 60000.0, "bins": 64, "scale": "log"}
TEXTS = ({"discover": "text", "length": 9}, {"discover": "bytes", "length": 5, "cells": 12})
WORDS = ("", "oom", "Type Error", "na\u00efve", "nai\u0308ve", "\U0001f41d bee", "z" * 99)


def pick(rng, choices):
    return choices[rng.integers(len(choices))]


def settings_of(rng):
    """Return random settings of a query: one answer, numbers, strings, or attributes with pairs."""
    kind = rng.integers(6)
    if kind < 3:
        return {"domain": pick(rng, DOMAINS), "oracle": pick(rng, BITS + ROWS), "other": bool(rng.integers(2))}
    if kind == 3:
        return {"domain": pick(rng, (LINEAR, LOGARITHMIC))}
    if kind == 4:
        return {"domain": pick(rng, TEXTS), "oracle": pick(rng, ("olh", "full", "hr"))}
    attributes = {"x": 12, "y": ["f", "m"], "z": 30}
    settings = {
        "attributes": attributes,
        "solution": pick(rng, ("smp", "spl")),
        "oracle": pick(rng, (*BITS, "olh", "hr")),
    }
    if settings["solution"] == "smp" and rng.integers(2):
        settings["pairs"] = [["y", "x"]]
    return settings


def query_of(rng):
    """Return a random query, or None if Python refuses it."""
    name = f"q{rng.integers(2)}"
    table = {"pane": "10s", "period": "1d", "budget": float(pick(rng, (4, 40, 900))), **settings_of(rng)}
    table["epsilon"] = pick(rng, (0.3, 1.0, 2.5, 6.0))
    table["answers"] = pick(rng, ("life", "once", "fresh"))
    table["noise"] = pick(rng, ("table", "each"))
    if rng.integers(4) == 0:
        table["groups"] = {"platform": ["ios", "android"]}
    renew = pick(rng, _RENEWS)
    if renew is not None:
        table["renew"] = renew
    try:
        return parse({"edition": 2, "queries": {name: table}}, "random lives", None)[name]
    except HubbubError:
        return None


def value_of(query, rng):
    """Return a random value, at times one outside of the domain."""
    if query.attributes:
        return {"x": int(rng.integers(12)), "y": pick(rng, ("f", "m")), "z": int(rng.integers(30))}
    if query.strings:
        return pick(rng, WORDS)
    names = getattr(query.domain, "names", None)
    if names:
        return pick(rng, [*names, "cafe\u0301", "nobody", "(other)"])
    return int(rng.integers(70)) if rng.random() < 0.9 else float(rng.integers(70)) + 0.5


def random_lives(count, first=0):
    """Yield lives from a number on. The same numbers give the same lives."""
    for number in range(first, first + count):
        rng = np.random.default_rng((53, number))
        queries = [query for query in (query_of(rng) for _ in range(6)) if query][:3]
        if not queries:
            continue
        max_epsilon, per = pick(rng, (*_LIMITS, (500.0, None), (90.0, 9 * DAY)))
        has_key_store = bool(rng.integers(2))
        time_s = int(rng.integers(20_000 * DAY, 20_100 * DAY))
        steps = []
        for _ in range(STEPS):
            time_s = max(0, time_s + _move(rng))
            definition = int(rng.integers(len(queries)))
            is_lost = has_key_store and rng.random() < 0.05
            steps.append(Step(time_s, value_of(queries[definition], rng), definition, lost=is_lost))
        yield Life(
            name=f"random life {number}",
            queries=queries,
            steps=steps,
            max_epsilon=max_epsilon,
            per=per,
            key=rng.bytes(32).hex(),
            has_key_store=has_key_store,
        )
