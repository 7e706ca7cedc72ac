"""Definitions as a gateway lists them, and lives of devices that answer them."""

import hashlib
import json
import math

from life_cases import lives

from oracles.errors import HubbubError
from oracles.frame import encode
from oracles.query import parse
from oracles.query.public_definition import public_definition
from producers import Client
from producers.client.ledger import Ledger
from producers.errors import NotYet
from producers.pins import pins_of
from producers.publishers.frames import pane_of

FLOATS = [1.0, 0.1, 1e-05, 0.0001, 1.5e-07, 16.0, 1e15, 1e16, 1.2345e22, -2.5, -0.0, 0.1 + 0.2, 5e-324, 123456789.125]
NAMES = [
    '"quoted"',
    "back\\slash",
    "tab\tand\nline",
    "\x1f\x7f",
    "caf\u00e9",
    "\U0001f41d",
    "\u2028",
    "a/b",
    "</script>",
]
E_ACUTE = "e\u0301"
NUMBERS = {"low": -2.5, "high": 1e16, "bins": 16}
LOAD = {"low": 1e-05, "high": 60_000, "bins": 64, "scale": "log"}
DAY = 86_400

GOOD = {
    "size": ({"domain": 5}, [0, 4, "3", "03", 5, -1, 1.5, "(other)"]),
    "size with other": ({"domain": 5, "other": True}, [4, 5, "7", "(other)", "anything"]),
    "names": ({"domain": ["a.example", "b.example"]}, ["b.example", "(other)", "c.example", 0]),
    "names without other": ({"domain": ["no", "yes"], "other": False}, ["yes", "maybe", "(other)"]),
    "names that JSON escapes": ({"domain": NAMES}, [*NAMES, "\x7f"]),
    "names in two forms of Unicode": (
        {"domain": ["caf" + E_ACUTE, "\u212b"]},
        ["caf\u00e9", "caf" + E_ACUTE, "\u00c5"],
    ),
    "a tiny epsilon": ({"domain": 300, "epsilon": 1e-05, "oracle": "grr", "noise": "each", "answers": "once"}, [299]),
    "an epsilon of many digits": ({"domain": 300, "epsilon": 0.1 + 0.2, "oracle": "ss", "answers": "fresh"}, [0]),
    "fewer buckets": ({"domain": 1024, "epsilon": 2.0, "oracle": "olh", "buckets": 2, "noise": "each"}, [1023]),
    "a table": ({"domain": 1024, "epsilon": 2.0, "oracle": "olh", "noise": "table"}, [1023]),
    "a larger table": ({"domain": 64, "epsilon": 1.0, "oracle": "olh", "noise": "table", "table": 4}, [63]),
    "a table of grr": ({"domain": 5, "epsilon": 4.0, "oracle": "grr", "noise": "table"}, [4]),
    "short": ({"domain": 1000, "epsilon": 3.0, "oracle": "short", "noise": "each", "answers": "once"}, [999]),
    "full": ({"domain": 100, "epsilon": 1.0, "oracle": "full", "noise": "table"}, [99]),
    "subsets": ({"domain": 1000, "epsilon": 6.0, "oracle": "sub", "answers": "once"}, [999]),
    "subsets of chosen buckets": (
        {"domain": 9, "epsilon": 2.0, "oracle": "sub", "buckets": 8, "subset": 3, "rows": "line", "answers": "fresh"},
        [8],
    ),
    "hr at 2^k values": ({"domain": 64, "epsilon": 1.0, "oracle": "hr"}, [63]),
    "sue": ({"domain": 9, "epsilon": 0.7, "oracle": "sue", "answers": "once"}, [8]),
    "oue": ({"domain": 9, "epsilon": 0.7, "oracle": "oue", "answers": "fresh"}, [8]),
    "numbers with a large end": ({"domain": NUMBERS}, [-2.5, -9, 1e16, 1e300, 0, 625_000_000_000_000.0, "x"]),
    "numbers on a logarithmic scale": ({"domain": LOAD}, [1e-05, 0.0, 1, 59_999, 1e9]),
    "attributes for life": (
        {"attributes": {"b.c": 12, "B": ["f", "m"], "a_b": 300, "a-b": 4}, "solution": "smp", "oracle": "olh"},
        [{"B": "f", "a-b": 3, "a_b": 299, "b.c": 11}, {"B": "f"}, {"B": "x", "a-b": 3, "a_b": 299, "b.c": 12}],
    ),
    "attributes named like members": (
        {"attributes": {"low": 64, "epsilon": 300, "high": 5}, "solution": "smp", "oracle": "olh", "noise": "table"},
        [{"low": 63, "epsilon": 299, "high": 4}],
    ),
    "pairs": (
        {
            "attributes": {"version": ["3.1", "3.2"], "crash": 5, "os": 3},
            "pairs": [["version", "crash"], ["os", "version"]],
            "oracle": "olh",
            "noise": "table",
        },
        [{"version": "3.2", "crash": 4, "os": 2}, {"version": "3.0", "crash": 0, "os": 0}, {"version*crash": 1}],
    ),
    "attributes with different oracles": (
        {
            "attributes": {"os": ["ios", "android"], "age": 74, "load": LOAD},
            "solution": "smp",
            "oracle": "adaptive",
            "epsilon": 2.0,
            "budget": 200.0,
            "noise": "each",
        },
        [{"os": "ios", "age": 73, "load": 1.0}],
    ),
    "three attributes that share an epsilon": (
        {
            "attributes": {"x": 5, "y": 6, "z": 7},
            "solution": "spl",
            "oracle": "grr",
            "epsilon": 1.0,
            "budget": 99.0,
            "noise": "each",
        },
        [{"x": 1, "y": 2, "z": 6}],
    ),
    "three attributes that share an epsilon and have tables": (
        {
            "attributes": {"x": 50, "y": 60, "z": 70},
            "solution": "spl",
            "oracle": "hr",
            "epsilon": 1.1,
            "noise": "table",
        },
        [{"x": 1, "y": 2, "z": 69}],
    ),
}


def query_of(settings, name="screens"):
    table = {"epsilon": 1.0, "pane": "10s", "period": "1d", **settings}
    return parse({"edition": 2, "queries": {name: table}}, "vectors", None)[name]


def definitions():
    """Return definitions with the positions of values, and definitions that a client refuses."""
    good = []
    for name, (settings, values) in GOOD.items():
        query = query_of(settings)
        cases = [{"value": value, "positions": positions(query, value)} for value in values]
        about = {"canonical": query.canonical, "charge": query.record_charge, "values": cases}
        good.append({"name": name, **about, "definition": public_definition(query)})
    floats = [{"number": f"{number:.17g}", "text": repr(number)} for number in FLOATS]
    return {"floats": floats, "good": good, "refused": refused(), "outside": outside()}


def positions(query, value):
    """Return the position of a value, one for each attribute, or None if it is no value."""
    try:
        return list(Client(query, ":memory:", max_epsilon=1000.0)._positions(value))
    except HubbubError:
        return None


def refused():
    """Return definitions that no client may answer, most with one changed member."""
    each = public_definition(query_of({"domain": 300, "oracle": "olh", "noise": "each", "answers": "once"}))
    ones = public_definition(query_of({"domain": 300, "oracle": "ss", "answers": "once"}))
    bits = public_definition(query_of({"domain": 9, "oracle": "oue", "answers": "once"}))
    table = public_definition(query_of({"domain": 64, "oracle": "olh", "noise": "table"}))
    record = public_definition(query_of({"attributes": {"x": 5, "y": 6}, "solution": "rsfd", "answers": "once"}))
    hi, lo = (int(table["thresholds"][name]) for name in ("hi", "lo"))
    keep = int(each["thresholds"]["T"])
    cases = {
        "a threshold that is too high": {**each, "thresholds": {"T": str(keep + 1)}},
        "a threshold that is too low": {**each, "thresholds": {"T": str(keep - 1)}},
        "no threshold": {**each, "thresholds": {}},
        "a threshold that is a number": {**each, "thresholds": {"T": keep}},
        "a threshold of another epsilon": signed({**each, "epsilon": math.nextafter(1.0, 0.0)}),
        "a threshold of ss that is too high": {**ones, "thresholds": {"T": str(int(ones["thresholds"]["T"]) + 1)}},
        "a bit that is one too seldom": {
            **bits,
            "thresholds": {**bits["thresholds"], "T_q": str(int(bits["thresholds"]["T_q"]) - 1)},
        },
        "a table with a higher hi": {**table, "thresholds": {"hi": str(hi + 1), "lo": str(lo)}},
        "a table with a lower lo": {**table, "thresholds": {"hi": str(hi), "lo": str(lo - 1)}},
        "a table without integers": {**table, "thresholds": {"T": str(keep)}},
        "another digest": {**each, "digest": "0" * 16},
        "another domain under the same digest": {**each, "domain": 301},
        "another width": {**each, "width": 8},
        "an epsilon of 0": signed({**each, "epsilon": 0.0}),
        "an epsilon above 16": signed({**each, "epsilon": 16.5}),
        "an unknown oracle": signed({**each, "oracle": "none"}),
        "a solution of another client": record,
    }
    listed = [{"name": name, "definition": definition, "pinned": {}} for name, definition in cases.items()]
    pins = {
        "an epsilon above the pinned one": {"epsilon": 0.99},
        "another pinned domain": {"domain": 299},
        "a pinned list": {"domain": ["300"]},
    }
    return listed + [{"name": name, "definition": each, "pinned": pin} for name, pin in pins.items()]


def outside():
    """Return listings and pins, and the error of a client that is asked to answer. No error stands for an answer."""
    listed = public_definition(query_of({**TABLE, "renew": "2d"}))
    numbers = public_definition(query_of({"domain": NUMBERS}))
    wrong = {"renew": [0, -5, True, 1.5, "1d", 10**9 + 1], "period": [0, 0.25, "1h", None], "pane": [0, -1, True]}
    wrong["budget"] = [0, -1, "8", None, True]
    cases = [(listed | {member: value}, {}, "NotAllowed") for member, values in wrong.items() for value in values]

    own = pins_of(query_of({**TABLE, "renew": "2d"}), digest=True)
    cases += [(listed, own, None), (listed | {"renew": None}, own, None), (listed, {"renew": 86_400}, None)]
    cases += [(numbers, pins_of(query_of({"domain": NUMBERS})), None)]
    changes = {"epsilon": 0.9, "record_charge": 2.2, "budget": 3.9, "renew": None, "period": 86_401, "pane": 11}
    changes |= {"answers": "once", "noise": "each", "table": 3, "oracle": "hr", "buckets": 2, "solution": "smp"}
    changes |= {"domain": 63, "other": True, "pairs": [["x", "y"]], "groups": PLATFORMS, "digest": "0" * 16}
    cases += [(listed, {**own, member: value}, "NotAllowed") for member, value in changes.items()]
    cases += [(listed, {"unknown": 1}, "ParameterError"), (listed, {"epsilon": "1"}, "ParameterError")]
    cases += [(listed, {"renew": 0}, "ParameterError"), (listed, {"answers": 1}, "ParameterError")]
    return [{"definition": definition, "pinned": pinned, "error": error} for definition, pinned, error in cases]


def signed(definition):
    """Return the definition with the digest of its members."""
    members = ("name", "epsilon", "pane", "oracle", "domain", "other", "table")
    meaning = {"format": 1} | {key: definition[key] for key in members if definition.get(key) is not None}
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return {**definition, "digest": hashlib.sha256(text.encode()).hexdigest()[:16]}


TABLE = {"domain": 64, "oracle": "olh", "noise": "table"}
EACH = {"domain": 9, "oracle": "olh", "noise": "each"}
PAIR = {"attributes": {"x": 12, "y": ["a", "b"]}, "solution": "smp", "oracle": "olh", "noise": "table"}
PLATFORMS = {"platform": ["ios", "android", "web"]}
LIVES = {
    "life, a table": (TABLE, [(10, 3), (20, 3), (DAY + 5, 60), (2 * DAY, 3)]),
    "life, noise for each class": ({**EACH, "budget": 4.0}, [(10, 3), (DAY, 8), (3 * DAY - 1, 3), (3 * DAY, 0)]),
    "life in rounds": ({**TABLE, "renew": "2d"}, [(10, 3), (DAY, 3), (2 * DAY, 3), (4 * DAY + 1, 3)]),
    "the clock goes back": ({**TABLE, "renew": "2d"}, [(5 * DAY, 3), (DAY, 3), (3 * DAY, 7), (6 * DAY, 3)]),
    "once": ({**TABLE, "answers": "once"}, [(10, 3), (DAY, 9), (2 * DAY, 64), (2 * DAY + 1, 9)]),
    "once in rounds": ({**EACH, "answers": "once", "renew": "1d"}, [(10, 3), (DAY, 5), (2 * DAY, 5)]),
    "fresh": ({"domain": 9, "oracle": "grr", "answers": "fresh", "budget": 3.0}, [(i * DAY, 4) for i in range(5)]),
    "fresh with a table": ({**TABLE, "answers": "fresh"}, [(i * DAY, 4) for i in range(3)]),
    "a charge without an answer": (
        {**EACH, "answers": "fresh", "budget": 2.0},
        [(0, 99), (1, 1), (DAY, 1), (2 * DAY, 1)],
    ),
    "max_epsilon": ({**EACH, "budget": 99.0, "epsilon": 2.5}, [(0, 1), (DAY, 1)]),
    "smp": (PAIR, [(i * DAY, {"x": i, "y": "ab"[i % 2]}) for i in range(4)]),
    "spl": ({**PAIR, "solution": "spl", "oracle": "hr"}, [(i * DAY, {"x": 5 + i % 2, "y": "b"}) for i in range(4)]),
    "pairs": (
        {"attributes": {"b": 12, "a": ["x", "y"]}, "pairs": [["b", "a"]], "oracle": "olh", "noise": "table"},
        [(i * DAY, {"a": "xy"[i % 2], "b": i}) for i in range(3)],
    ),
    "pairs in rounds": (
        {
            "attributes": {"b": 12, "a": ["x", "y"]},
            "pairs": [["b", "a"]],
            "oracle": "hr",
            "noise": "table",
            "renew": "1d",
        },
        [(i * DAY, {"a": "y", "b": 11}) for i in range(6)],
    ),
    "unary": ({"domain": 30, "oracle": "ss", "answers": "once"}, [(0, 29), (DAY, 1)]),
    "haar": ({"domain": {"low": 0, "high": 10, "bins": 16}}, [(0, 9.99), (DAY, 3.3), (2 * DAY, 9.99)]),
    "short": ({"domain": 1000, "oracle": "short", "epsilon": 2.0, "noise": "table"}, [(0, 999), (DAY, 500)]),
    "a group": ({**TABLE, "groups": PLATFORMS}, [(0, 3), (DAY, 4)]),
    "the last group": ({**TABLE, "groups": {"v": [f"{i}" for i in range(255)]}}, [(0, 3)]),
    "a group that is not listed": ({**TABLE, "groups": PLATFORMS}, [(0, 3)]),
    "a group of a query without groups": (TABLE, [(0, 3)]),
    "no group": ({**TABLE, "groups": PLATFORMS}, [(0, 3)]),
}
GROUPS = {
    "a group": "android",
    "the last group": "254",
    "a group that is not listed": "symbian",
    "a group of a query without groups": "android",
}
"""The groups of devices. The others have none."""
KEYS = ("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "02" * 32)


def histories():
    """Return the frames that devices send at each time, or why they are silent."""
    short_lives = [life(name, settings, answers, key) for name, (settings, answers) in LIVES.items() for key in KEYS]
    return [*short_lives, *lives()]


def life(name, settings, answers, key):
    query, most, store = query_of(settings), 8.0, Ledger(":memory:", bytes.fromhex(key))
    group = GROUPS.get(name)
    steps = [{"at": at, "value": value, **answer(query, store, most, at, value, group)} for at, value in answers]
    about = {"name": name, "key": key, "max_epsilon": most, "group": group}
    return {**about, "definition": public_definition(query), "steps": steps}


def answer(query, store, most, at, value, group):
    """Return the frame that a client sends or its error, and what is charged in the present round."""
    try:
        client = Client(query, store, max_epsilon=most, group=group, clock=lambda: at)
        report = client.answer(value)
    except HubbubError as error:
        step = {"error": type(error).__name__, **({"due": error.due} if isinstance(error, NotYet) else {})}
    else:
        step = {"frame": encode(query.digest, pane_of(query, at), report, group=client.group).hex()}
    with store.transaction() as transaction:
        start = max(query.round(at), transaction.last_round(query.digest))
        charge = transaction.round_charge(query.name, query.digest, query.record_epsilon, start)
    return {**step, "spent": float(charge)}
