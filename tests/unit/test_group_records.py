"""Groups: the records of a group are those of a query of its own, and the total is the sum of the groups shown."""

from itertools import product

import numpy as np
import orjson
import pytest

from aggregator.merging.merger import Merger
from aggregator.publishing.finals.final import ResultSequence
from aggregator.records.decoder import decode as decode_record
from aggregator.records.span import Span
from aggregator.tallies.frame_batch import FrameBatch
from aggregator.tallies.group_cells import split
from aggregator.tallies.snapshot import decode_snapshot, encode_snapshot
from aggregator.tallies.tally import Tally
from hubbub.definitions.versions import Version, Versions
from tests import schemas
from tests.queries import make_query, make_table
from tests.results import build

PANE = 10
PLATFORMS = ["ios", "android", "web"]
LABELS = ["(none)", *PLATFORMS]
WITHHELD = {"small", "held"}


def ask(**changes):
    usual = {"domain": 5, "oracle": "grr", "budget": 1e9, "crowd": 10, "windows": ["10s", "1m/10s", "all"]}
    table = make_table(usual | {"methods": ["norm_sub"], "groups": {"platform": PLATFORMS}}, **changes)
    return make_query({key: value for key, value in table.items() if value is not None}, name="site")


SEVERAL = {"domain": None, "attributes": {"a": 3, "b": 4}}
KINDS = {
    "values": {},
    "a large domain": {"domain": 300, "oracle": "olh"},
    "numbers": {"domain": {"low": 0, "high": 100, "bins": 16}, "oracle": "haar", "methods": None, "crowd": 3},
    "smp": SEVERAL | {"oracle": "grr", "solution": "smp"},
    "pairs": SEVERAL | {"oracle": "grr", "solution": "smp", "pairs": [["a", "b"]]},
    "spl": SEVERAL | {"oracle": "oue", "solution": "spl"},
    "rsfd": SEVERAL | {"solution": "rsfd", "oracle": "adaptive", "answers": "once", "epsilon": 2.0},
    "a prior": {"methods": ["norm_sub", "calibrate"], "sets": {"few": ["0", "1"]}},
}


def answers_of(query, count, rng):
    """Return so many honest reports."""
    sizes = [domain.size for domain in query.answer_domains]
    values = np.column_stack([np.minimum(rng.integers(0, size, count), rng.integers(0, size, count)) for size in sizes])
    return query.oracle.perturb(values if query.attributes else values[:, 0], rng)


def log_of(query, sizes, seed=1):
    """Return frames of (pane, group, reports). `sizes` has for each pane the number of reports of each group."""
    rng = np.random.default_rng(seed)
    rows = [(PANE * position, group, n) for position, counts in enumerate(sizes) for group, n in enumerate(counts) if n]
    return [(pane, group, answers_of(query, n, rng)) for pane, group, n in rows]


def counted(query, frames):
    """Return the snapshot of each pane, of frames that are added in one batch."""
    panes = {}
    for pane in sorted({pane for pane, _, _ in frames}):
        rows = [(group, reports) for at, group, reports in frames if at == pane]
        tally = Tally.empty(query)
        batch = FrameBatch(
            list(range(len(rows))),
            np.array([len(reports) for _, reports in rows]),
            None,
            np.concatenate([reports for _, reports in rows]),
            len(rows),
            0,
            groups=np.array([group for group, _ in rows], np.uint8),
        )
        tally.add(query.oracle, batch, 10)
        panes[pane] = decode_snapshot(encode_snapshot(tally.close()), query.oracle.state_size, len(PLATFORMS))
    return panes


def finals_of(versions, panes, through):
    """Return the records of all finals by key, one pane after the other."""
    merger, results, records = Merger(versions, 1), ResultSequence(), {}
    for pane in range(0, through, PANE):
        if pane in panes:
            merger.take(pane, 0, panes[pane])
        merger.mark(0, pane + PANE)
        for final in merger.finals():
            query = versions.at(final.span.end - PANE).query
            records |= dict(results.next(query, final).window.records)
    return {key.decode(): schemas.record(value) for key, value in records.items()}


SIZES = [(30, 40, 12, 5), (25, 31, 0, 4), (8, 50, 7, 3), (40, 44, 13, 0), (2, 60, 11, 1), (31, 30, 30, 30)]
"""Reports of no group, ios, android and web in each pane."""


@pytest.mark.parametrize("kind", KINDS)
def test_the_records_of_a_group_are_those_of_a_query_of_its_own(kind):
    """They are equal to the last bit, except for the group itself."""
    query = ask(**KINDS[kind])
    alone = ask(**KINDS[kind], groups=None)
    frames = log_of(query, SIZES)
    records = finals_of(Versions.of(query), counted(query, frames), 10 * PANE)
    for key, record in records.items():
        if kind != "pairs":
            schemas.RECORD.validate(record)
        if record["window"]["start"] >= 0:
            label = record["group"]["platform"] if record["group"] else None
            assert (decode_record(orjson.dumps(record)).group == label) == (f"|g:platform={label}" in key or not label)
    assert query.digest == alone.digest
    for group, label in enumerate(["(none)", *PLATFORMS]):
        part = f"|g:platform={label}"
        own = {key.replace(part, ""): record for key, record in records.items() if part in key}
        assert {str(record.pop("group")) for record in own.values()} == {str({"platform": label})}
        of_group = [(pane, 0, reports) for pane, number, reports in frames if number == group]
        expected = finals_of(Versions.of(alone), counted(alone, of_group), 10 * PANE)
        assert any(record["n"] for record in own.values())
        assert own == expected


def key_of(query, kind, end, group=None, attribute=None):
    size = {"tumbling": "10|10", "hopping": "60|10", "all": "0|0"}[kind]
    parts = [f"site|{query.digest.hex()}|{kind}|{size}|{end}"]
    if group is not None:
        parts.append(f"g:platform={group}")
    if attribute is not None:
        parts.append(f"a:{attribute}")
    return "|".join(parts)


@pytest.mark.parametrize("kind", ["values", "numbers", "smp", "spl"])
def test_the_total_is_that_of_the_groups_that_are_shown(kind):
    query = ask(**KINDS[kind])
    alone = ask(**KINDS[kind], groups=None)
    frames = log_of(query, SIZES)
    records = finals_of(Versions.of(query), counted(query, frames), 10 * PANE)
    flags = set()
    for record in records.values():
        if record["group"] is not None or record["window"]["kind"] != "tumbling":
            continue
        start = record["window"]["start"]
        attribute = record["attribute"]
        groups = {label: records.get(key_of(query, "tumbling", start + PANE, label, attribute)) for label in LABELS}
        visible = [number for number, label in enumerate(LABELS) if groups[label] and groups[label]["n"]]
        assert record["n"] == sum(groups[LABELS[number]]["n"] for number in visible)
        flags |= {*record["quality"]["flags"]}
        if not visible:
            assert record["quality"]["flags"] == ["small"]
            continue
        withheld = any(group and WITHHELD & {*group["quality"]["flags"]} for group in groups.values())
        assert ("partial_groups" in record["quality"]["flags"]) == withheld
        sum_of = counted(
            alone, [(start, 0, reports) for at, group, reports in frames if at == start and group in visible]
        )
        window_records = build(alone, Span(query.windows[0], start, start + PANE), sum_of[start]).records
        [expected] = [
            group for group in map(orjson.loads, dict(window_records).values()) if group["attribute"] == attribute
        ]
        assert {name: record[name] for name in expected if name != "quality"} == {
            name: expected[name] for name in expected if name != "quality"
        }
    assert "partial_groups" in flags


def test_a_total_of_which_no_group_is_shown_is_small():
    query = ask(windows=["10s"])
    records = finals_of(Versions.of(query), counted(query, log_of(query, [(9, 9, 9, 9)])), 10)
    assert {record["n"] for record in records.values()} == {0}
    assert {tuple(record["quality"]["flags"]) for record in records.values()} == {("small",)}
    assert len(records) == 5


def test_a_frame_that_comes_again_is_counted_in_its_group():
    query = ask()
    rng = np.random.default_rng(3)
    pieces = [answers_of(query, 20, rng) for _ in range(4)]
    ids = [bytes([number]) * 8 for number in (1, 2, 2, 1)]
    tally = Tally.empty(query)
    batch = FrameBatch([0, 1, 2, 3], [20] * 4, ids, np.concatenate(pieces), 4, 0, np.array([0, 2, 2, 1], np.uint8))
    assert tally.add(query.oracle, batch, 10) == [2, 3]
    assert [(part.n, part.duplicates) for part in split(tally.snapshot(), query.oracle.state_size)] == [
        (20, 0),
        (0, 20),
        (20, 20),
        (0, 0),
    ]


def test_a_batch_of_nothing_but_frames_that_come_again_counts_nothing():
    query, rng = ask(), np.random.default_rng(3)
    ids = [b"12345678"]
    groups = np.array([2], np.uint8)
    tally = Tally.empty(query)
    for offset in range(2):
        batch = FrameBatch([offset], [20], ids, answers_of(query, 20, rng), offset + 1, 0, groups)
        assert tally.add(query.oracle, batch, 10) == [0] * offset
    assert tally.n == 20
    assert tally.duplicates == 20


def test_implausible_reports_are_those_of_their_group():
    query = ask(domain=100, oracle="oue")
    wrong_reports = np.array([[255] * 12 + [15]], np.uint8)
    rows = [(0, 0, answers_of(query, 20, np.random.default_rng(1))), (0, 2, wrong_reports), (0, 3, wrong_reports)]
    [snapshot] = counted(query, rows).values()
    assert [(part.n, part.implausible) for part in split(snapshot, query.oracle.state_size)] == [
        (20, 0),
        (0, 0),
        (0, 1),
        (0, 1),
    ]


def test_a_group_that_the_version_of_the_pane_does_not_have_is_group_0():
    query = ask(groups={"platform": ["ios"]})
    [snapshot] = counted(
        query, [(0, group, answers_of(query, 10, np.random.default_rng(1))) for group in range(4)]
    ).values()
    assert [part.n for part in split(snapshot, query.oracle.state_size)] == [30, 10]


# --- versions ---------------------------------------------------------------------------------------------------------


def versions_of(*queries):
    """Return the versions of a query, each of the next two panes."""
    versions = Versions.of(queries[0])
    for number, query in enumerate(queries[1:], 1):
        versions = versions.with_version(Version(2 * PANE * number, query))
    return versions


def test_a_version_adds_groups_and_another_one_appends_values():
    """Until then all reports are of group 0. Windows across the versions add what each pane has."""
    plain, two, three = ask(groups=None), ask(groups={"platform": ["ios", "android"]}), ask()
    versions = versions_of(plain, two, three)
    rng = np.random.default_rng(2)
    rows = [(PANE * number, group, answers_of(plain, 20, rng)) for number, group in product(range(6), range(4))]
    panes = {}
    for pane in range(0, 6 * PANE, PANE):
        panes |= counted(versions.at(pane).query, [row for row in rows if row[0] == pane])
    cells = plain.oracle.state_size
    lengths = [cells, cells, cells + 2 * (cells + 3), cells + 2 * (cells + 3), cells + 3 * (cells + 3)]
    assert [len(panes[PANE * number].counts) for number in range(5)] == lengths
    records = finals_of(versions, panes, 10 * PANE)
    ns = {label: records[key_of(plain, "hopping", 60, label)]["n"] for label in (None, *LABELS)}
    assert ns == {None: 480, "(none)": 280, "ios": 80, "android": 80, "web": 40}
    assert {records[key_of(plain, "all", end)]["n"] for end in (10, 20, 30)} == {80, 160, 240}
    first_record = records[key_of(plain, "tumbling", 10)]
    assert "group" not in first_record
    assert first_record == finals_of(Versions.of(plain), panes, PANE)[key_of(plain, "tumbling", 10)]


# --- weights ----------------------------------------------------------------------------------------------------------

WEIGHTS = {"ios": 0.28, "android": 0.72, "web": 0}


def by_value(record, shares):
    return dict(zip(record["values"], shares, strict=True))


def test_a_weighted_total_holds_the_groups_that_are_shown_and_have_a_weight():
    query = ask(weights=WEIGHTS, windows=["10s"], epsilon=3.0, publish="all")
    frames = log_of(query, [(400, 300, 900, 200), (400, 300, 5, 200)])
    records = finals_of(Versions.of(query), counted(query, frames), 20)
    for end, weights in ((10, {"ios": 0.28, "android": 0.72}), (20, {"ios": 1.0})):
        total = records[key_of(query, "tumbling", end)]
        groups = {label: records[key_of(query, "tumbling", end, label)] for label in weights}
        for method in ("unbiased", "norm_sub"):
            parts = {label: by_value(group, group["shares"][method]) for label, group in groups.items()}
            for value, share in by_value(total, total["weighted"]["shares"][method]).items():
                expected = sum(weight * parts[label][value] for label, weight in weights.items())
                assert share == pytest.approx(expected, abs=1e-6)
        assert [len(total["weighted"][column]) for column in ("stderr", "low", "high")] == [5, 5, 5]
        assert not any("weighted" in group for group in groups.values())
    both, record_of_group = (records[key_of(query, "tumbling", end)]["weighted"] for end in (10, 20))
    assert both["n_effective"] == pytest.approx(1 / (0.28**2 / 300 + 0.72**2 / 900), rel=1e-6)
    assert both["weight"] == 1
    assert record_of_group["weight"] == 0.28
    assert record_of_group["n_effective"] == 300


def test_a_total_without_a_weight_that_counts_is_null():
    query = ask(weights=WEIGHTS, windows=["10s"])
    records = finals_of(Versions.of(query), counted(query, log_of(query, [(400, 0, 0, 200)])), 10)
    assert records[key_of(query, "tumbling", 10)]["weighted"] is None


def test_errors_of_weighted_totals_are_right_if_response_differs_by_group():
    """The bound is 4.9 standard errors of the ratio, so with another seed it fails once in a million times."""
    query = ask(
        domain=16, oracle="olh", weights={"ios": 0.2, "android": 0.5, "web": 0.3}, windows=["10s"], publish="all"
    )
    rng = np.random.default_rng(11)
    people = {"ios": (0.2, 3_000), "android": (0.5, 400), "web": (0.3, 1_200)}
    laws = {label: rng.dirichlet(np.full(16, 0.6)) for label in people}
    truth = sum(weight * laws[label] for label, (weight, _) in people.items())
    ratios = []
    for _ in range(320):
        rows = [
            (0, group, query.oracle.perturb(rng.choice(16, n, p=laws[label]), rng))
            for group, (label, (_, n)) in enumerate(people.items(), 1)
        ]
        [snapshot] = counted(query, rows).values()
        [(_, value), *_] = build(query, Span(query.windows[0], 0, PANE), snapshot).records
        record = orjson.loads(value)
        order = [int(name) for name in record["values"]]
        errors = np.array(record["weighted"]["shares"]["unbiased"]) - truth[order]
        ratios.append(errors / np.array(record["weighted"]["stderr"]))
    assert 0.95 <= np.sqrt(np.mean(np.square(ratios))) <= 1.05


# --- alerts -----------------------------------------------------------------------------------------------------------


def alerts_of(query, sizes, law):
    """Return the kinds of the alerts of each window. `law` gives the value of all people of a pane and group."""
    rng, merger, results, kinds = np.random.default_rng(4), Merger(Versions.of(query), 1), ResultSequence(), []
    for position, counts in enumerate(sizes):
        rows = [
            (PANE * position, group, query.oracle.perturb(np.full(n, law(position, group)), rng))
            for group, n in enumerate(counts)
            if n
        ]
        merger.take(PANE * position, 0, counted(query, rows)[PANE * position])
        merger.mark(0, PANE * (position + 1))
        kinds += [
            {orjson.loads(value)["kind"] for _, value in results.next(query, final).decision.alerts}
            for final in merger.finals()
        ]
    return kinds


@pytest.mark.parametrize("answers", ["fresh", "life"])
def test_a_change_is_looked_for_only_between_windows_of_the_same_groups(answers):
    """A group whose people answer differently falls below the crowd for a window. That is no surge of its values."""
    query = ask(epsilon=4.0, windows=["10s"], answers=answers, budget=1e9)
    sizes = [(0, 800, 800, 0)] * 3 + [(0, 800, 5, 0)] + [(0, 800, 800, 0)] * 3
    calm = alerts_of(query, sizes, lambda _, group: group)
    assert calm[0] == {"enter"}
    assert not any({"surge", "fade"} & kinds for kinds in calm)
    moved = alerts_of(query, [(0, 800, 800, 0)] * 4, lambda at, group: group if at < 2 else 4)
    assert {"surge", "fade"} <= moved[2]


def test_blocks_of_different_groups_are_not_compared():
    """A long block in which the groups of its windows differ is no block of the total."""
    query = ask(epsilon=4.0, windows=["10s"], answers="fresh", budget=1e9)
    sizes = [(0, 800, 800 if number % 2 else 5, 0) for number in range(24)]
    assert not any({"surge", "fade"} & kinds for kinds in alerts_of(query, sizes, lambda _, group: group))


# --- provisional records ----------------------------------------------------------------------------------------------


def test_provisional_records_end_at_the_marks_of_their_group():
    query = ask(windows=["10s", "1m"], crowd=20)
    frames = log_of(query, [(0, 25, 8, 0), (0, 30, 9, 0), (0, 7, 30, 0)])
    merger = Merger(Versions.of(query), 1)
    records = {}
    for pane, snapshot in counted(query, frames).items():
        merger.take(pane, 0, snapshot)
        merger.mark(0, pane + PANE)
        list(merger.finals())
        for window in merger.provisional():
            window_records = build(
                query, window.span, window.total, window.withheld, through=window.through, totals=window.totals
            )
            records |= {(pane + PANE, key.decode()): orjson.loads(value) for key, value in window_records.records}
    minute = key_of(query, "tumbling", 60).replace("10|10", "60|60")
    rows = {
        end: {
            label: (records[at]["window"]["through"], records[at]["n"], records[at]["quality"]["flags"])
            for label, part in ((None, ""), ("ios", "|g:platform=ios"), ("android", "|g:platform=android"))
            if (at := (end, f"{minute}{part}|p")) in records
        }
        for end in (10, 20, 30)
    }
    assert rows == {
        10: {None: (10, 25, ["partial_groups"]), "ios": (10, 25, [])},
        20: {None: (20, 55, ["partial_groups"]), "ios": (20, 55, [])},
        30: {None: (30, 47, ["partial_groups"]), "ios": (20, 55, []), "android": (30, 47, [])},
    }
