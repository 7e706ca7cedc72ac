"""The limits of the client for browsers and Node bind, whatever a gateway lists."""

import json
import math

import numpy as np
import pytest

from oracles.frame import encode
from producers import Client
from producers.client.ledger import Ledger
from producers.gateway.intake.active_definitions import public_definition
from producers.publishers.frames import pane_of
from tests.browser.node_device import DAY, Device, item_of, query_of

HOUR = 3_600
PIN = (
    "epsilon",
    "record_charge",
    "budget",
    "renew",
    "period",
    "pane",
    "answers",
    "noise",
    "table",
    "oracle",
    "buckets",
)
PIN = (*PIN, "solution", "domain", "other", "attributes", "pairs", "groups", "digest")
NAMES = ("constructor", "__proto__", "toString", "hasOwnProperty")
KEY = "02" * 32


@pytest.fixture
def device(tmp_path):
    return Device(tmp_path)


@pytest.mark.parametrize("answers", ["life", "once", "fresh"])
@pytest.mark.parametrize(("renew", "limit"), [(3 * HOUR, 8.0), (1, 1.0)])
def test_a_listing_cannot_spend_more_than_the_limit(device, answers, renew, limit):
    item = {**item_of(answers="fresh", budget=1e6), "answers": answers, "renew": renew, "period": 1}
    times = [(step + 1) * 3 * HOUR for step in range(56)]
    results = device.live(times, [item], maxEpsilon=limit, pinned={"epsilon": 1, "domain": 64})
    assert max(result["status"]["life"] for result in results) <= limit
    if answers == "life" and limit > 1:
        assert [result.get("error") for result in results] == [None] * 56
        assert results[-1]["status"]["lengthened"]
    elif limit > 1:
        assert [result.get("error") for result in results] == [None] * 8 + ["BudgetSpent"] * 48
    assert len(device.warnings) == 1
    assert "per" in device.warnings[0]


def test_a_charge_expires_by_the_rule_of_the_application_alone(device):
    item = item_of(answers="once", renew="1d")
    days = [day * DAY for day in range(1, 10)]
    results = device.live(days, [item], maxEpsilon=2.5, per="3d")
    assert [result.get("error", "ok") for result in results] == ["ok", "ok", "BudgetSpent"] * 3
    assert results[-1]["status"] == {
        "due": results[-1]["status"]["due"],
        "spent": 0,
        "remaining": 0.5,
        "maxEpsilon": 2.5,
        "per": 3 * DAY,
        "counted": 2,
        "life": 6,
        "lengthened": False,
        "queries": [{"name": "screens", "counted": 2, "life": 6}],
    }
    assert len(device.warnings) == 1
    assert "larger maxEpsilon" in device.warnings[0]


@pytest.mark.parametrize(
    "options",
    [
        *({"per": per} for per in (59, 60.5, 2e9, "30", "1w", "59s", True, {})),
        *({"maxEpsilon": most} for most in (0, -1, "8", None)),
        *(
            {"pinned": pin}
            for pin in ({"edges": [1]}, {"epsilon": "1"}, {"epsilon": None}, {"renew": 0}, {"pane": 0.5})
        ),
        *({"pinned": pin} for pin in ({"domain": "x"}, {"answers": "often"}, {"digest": "ab"}, {"constructor": 1})),
    ],
)
def test_a_limit_that_binds_nothing_is_an_error_at_once(device, options):
    if options.get("maxEpsilon", 1) is None:
        options = {"maxEpsilon": [8]}  # JSON has no NaN
    assert device.outcomes([10], [item_of()], **options) == ["TypeError"]
    assert not (device.folder / "device").exists()


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *(("renew", value) for value in (0, -5, True, 0.5, "3h", 2e9)),
        *(("period", value) for value in (0, -1, 0.25, "1h", True, None)),
        *(("budget", value) for value in (0, -1, "8", None, True)),
        *(("pane", value) for value in (0, 0.5, "10s")),
        *(("epsilon", value) for value in (0, "1", None, True, 17)),
        ("answers", "often"),
    ],
)
def test_a_number_from_outside_is_checked_before_anything_is_charged(device, member, value):
    assert device.outcomes([10], [{**item_of(), member: value}]) == ["NotAllowed"]
    assert device.state()["charges"] == []
    assert device.state()["last"] == device.state()["definitions"] == {}


def test_pins_are_maxima_minima_or_equal(device):
    item = item_of(renew="2d", groups={"os": ["a", "b"]})
    pin = {member: item.get(member) for member in PIN}
    fewer = {"epsilon": 0.5, "record_charge": 2, "budget": 3, "renew": None, "period": 90_000, "pane": 20}
    others = {"answers": "once", "noise": "each", "table": 3, "oracle": "hr", "buckets": 2, "solution": "smp"}
    others |= {"domain": 65, "other": True, "attributes": {"x": {"domain": 5}}, "pairs": [["x", "y"]]}
    others |= {"groups": {"os": ["b", "a"]}, "digest": "0" * 16}
    changes = [pin, {}, *({**pin, member: value} for member, value in (fewer | others).items())]
    results = device.live([{"at": 10, "pinned": change, "store": ":memory:"} for change in changes], [item])
    assert [result.get("error", "ok") for result in results] == ["ok"] * 2 + ["NotAllowed"] * len(fewer | others)
    for (member, value), result in zip((fewer | others).items(), results[2:], strict=True):
        assert member in result["message"]
        assert json.dumps(value, separators=(",", ":")) in result["message"]
        assert result["status"] is None
    looser = {"epsilon": 2, "record_charge": 9, "budget": 9, "renew": 60, "period": 5, "pane": 1}
    assert device.outcomes([10], [item], pinned={**pin, **looser}) == ["ok"]


def test_the_domains_of_attributes_are_pinned_by_name_or_as_the_item_has_them(device):
    item = item_of(attributes={"x": 5, "constructor": ["a", "b"]}, solution="smp", oracle="hr")
    domains = {"x": 5, "constructor": ["a", "b"]}
    pins = [{"domain": domains}, {"domain": None, "attributes": item["attributes"]}, {"domain": {"x": 5}}]
    steps = [{"at": 10, "pinned": pin, "store": ":memory:", "value": {"x": 1, "constructor": "b"}} for pin in pins]
    assert device.outcomes(steps, [item]) == ["ok", "ok", "NotAllowed"]


def scales(random):
    """Yield scales with ends of all sizes."""
    for _ in range(40):
        low, high = sorted(10.0 ** random.uniform(-200, 200, 2))
        yield {"low": low, "high": high, "bins": 2 ** int(random.integers(4, 11)), "scale": "log"}
    for _ in range(40):
        low, high = sorted(random.uniform(-1, 1, 2) * 10.0 ** random.uniform(-20, 300))
        yield {"low": low, "high": high, "bins": 2 ** int(random.integers(4, 11))}
    yield {"low": -1, "high": 1, "bins": 16}


def test_the_edges_of_all_scales_are_accepted(device):
    items = [item_of(domain=scale) for scale in scales(np.random.default_rng(47))]
    steps = [{"at": 10, "listing": number, "store": ":memory:", "value": 0} for number in range(len(items))]
    assert set(device.outcomes(steps, *([item] for item in items))) == {"ok"}


def test_other_edges_ask_another_question(device):
    item = item_of(domain={"low": 1, "high": 1000, "bins": 16, "scale": "log"})
    edges = item["edges"]
    step = math.ulp(edges[5])
    changes = [[*edges[:5], edges[5] + steps * step, *edges[6:]] for steps in (4, 6, -6)]
    changes += [edges[:-1], [*edges[:5], edges[4], *edges[6:]], None, [1, *([500] * 15), 1000], ["1", *edges[1:]]]
    listings = [[{**item, "edges": change}] for change in changes]
    steps = [{"at": 10, "listing": number, "store": ":memory:"} for number in range(len(listings))]
    outcomes = device.outcomes(steps, *listings, pinned={"domain": item["domain"]})
    assert outcomes == ["ok"] + ["NotAllowed"] * 7
    assert device.outcomes([10], [{**item_of(), "edges": [0, 1, 2]}]) == ["NotAllowed"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_a_member_of_all_objects_gives_the_bits_of_python(device, name):
    values = [name, "a", "b"]
    attributes = {name: values, "y": {"low": 0, "high": 9, "bins": 16}, "z": 9}
    queries = [
        query_of(name),
        query_of(name, domain=values, groups={name: values}, other=False),
        query_of(name, attributes=attributes, solution="smp", oracle="adaptive", noise="each", budget=200.0),
        query_of(name, attributes={name: 4, "y": 5}, solution="spl", oracle="hr"),
    ]
    answers = [3, name, {name: name, "y": 3.5, "z": 8}, {name: 3, "y": 4}]
    for number, (query, value) in enumerate(zip(queries, answers, strict=True)):
        group = name if query.groups else None
        ledger = Ledger(":memory:", bytes.fromhex(KEY))
        client = Client(query, ledger, max_epsilon=100.0, group=group, clock=lambda: 10.0)
        frame = encode(query.digest, pane_of(query, 10), client.answer(value), group=client.group).hex()
        about = {"store": str(device.folder / f"store-{number}"), "key": KEY, "first": True, "maxEpsilon": 100}
        steps = [{"at": at, "value": value} for at in (10, 20, DAY + 10)]
        options = about | ({"group": group} if group else {})
        results = device.live(steps, [public_definition(query)], **options)
        assert [result.get("frame") and result["frame"][:16] for result in results] == [frame[:16], None, frame[:16]]
        assert results[0]["frame"] == frame
        assert results[1]["error"] == "NotYet"
        assert results[2]["status"]["queries"] == [{"name": name, "counted": client.spent, "life": client.spent}]


def test_of_one_name_the_last_definition_is_answered(device):
    old, new = item_of(domain=9), item_of()
    (result,) = device.live([10], [old, item_of("other"), new])
    assert result["frame"][16:32] == new["digest"]


def test_a_store_of_version_1_is_upgraded_in_place(device):
    item = item_of(renew="1d")
    assert device.outcomes([10], [item]) == ["ok"]
    state = device.state()
    row = {"name": "screens", "digest": "aa" * 8, "round": 0, "mode": 0, "epsilon": 0.5, "times": 2}
    rows = [row, {**row, "round": DAY}, {**row, "round": 3 * DAY}, {**row, "round": 5 * DAY}]
    rows += [
        {**row, "name": "gone"},
        {**row, "mode": 1, "digest": "bb" * 8},
        {**row, "mode": 1, "digest": "bb" * 8, "round": 9},
    ]
    first = {**state, "version": 1, "charges": rows, "last": {"screens": 4.5 * DAY}, "rounds": {"aa" * 8: 5 * DAY}}
    del first["newest"]
    (device.folder / "device").write_text(json.dumps(first))
    assert device.outcomes([6 * DAY], [item], maxEpsilon=8) == ["BudgetSpent"]
    after = device.state()
    assert (after["version"], after["newest"]) == (2, 6 * DAY)
    uses = [charge["used"] / DAY for charge in after["charges"]]
    assert uses == [4.5, 3.0, 4.5, 4.5, 6.0, 4.5, 4.5]
    assert [charge["number"] for charge in after["charges"]] == [0, 0, 0, 0, 0, 0, 2]
