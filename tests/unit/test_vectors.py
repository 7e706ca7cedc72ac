"""The golden vectors, reproduced by the package and by a client that knows only docs/wire-format.md."""

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import ORACLES, oracle
from oracles.frame import FrameError, decode, partition_of, place_in, slots
from oracles.mechanisms import WITH_SUBSETS
from oracles.mechanisms.table import best
from oracles.multi import multi
from producers.client.respondents import Respondents
from producers.entropy import Keyed
from tests.unit.fixed_source import Fixed

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "vectors"
PAGE = (ROOT / "docs" / "wire-format.md").read_text()


def load(path):
    # By its path, because the reference client must not be part of a package that it checks.
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = load(Path(__file__).with_name("reference_client.py"))
REPORTS, SUPPORT, FRAMES, KEY_STREAMS, TABLES = (
    json.loads((VECTORS / f"{name}.json").read_text()) for name in ("reports", "support", "frames", "keyed", "tables")
)


def label(group):
    return "-".join(str(group[key]) for key in ("oracle", "solution", "epsilon", "size", "sizes") if key in group)


def every(groups):
    return pytest.mark.parametrize("group", groups, ids=label)


def asked(group):
    return group["oracle"], group["epsilon"], group["size"]


def built(group):
    return oracle(group["oracle"], epsilon=group["epsilon"], size=group["size"])


def built_multi(group):
    return multi(group["solution"], sizes=group["sizes"], epsilon=group["epsilon"], oracle=group["oracles"])


def stated(group):
    """Return the parameters in a vector, with thresholds as integers."""
    return {key: int(group[key]) for key in ("T", "T_p", "T_q", "l", "k", "m", "width") if key in group}


def unhex(reports):
    return np.array([list(bytes.fromhex(part)) for part in reports], np.uint8)


@every(REPORTS["oracles"])
def test_package_makes_the_reports(group):
    for case in group["cases"]:
        source = Fixed(bytes.fromhex(case["entropy"]))
        assert built(group).perturb([case["value"]], source).tobytes().hex() == case["report"]
        assert not source.left


@every(REPORTS["oracles"])
def test_reference_client_makes_the_reports(group):
    assert reference.parameters(*asked(group)) == stated(group)
    for case in group["cases"]:
        stream = reference.Stream(bytes.fromhex(case["entropy"]))
        assert reference.report(*asked(group), case["value"], stream).hex() == case["report"]
        assert stream.used == len(stream.data)


def with_subsets(group):
    settings = {key: group[key] for key in ("epsilon", "size", "buckets", "subset", "rows")}
    return oracle("sub", **settings)


@every(REPORTS["subsets"])
def test_both_make_the_reports_of_subsets(group):
    about = reference.maps(group)
    assert stated(group) == {key: about[key] for key in ("T", "l", "k", "width")}
    for case in group["cases"]:
        data = bytes.fromhex(case["entropy"])
        source, stream = Fixed(data), reference.Stream(data)
        words = reference.words_of_subsets(group, stream)
        own = reference.bucket_of_subsets(group, words, case["value"])
        assert reference.report_of_subsets(group, words, own, stream).hex() == case["report"]
        assert with_subsets(group).perturb([case["value"]], source).tobytes().hex() == case["report"]
        assert stream.used == len(data)
        assert not source.left


@every(SUPPORT["subsets"])
def test_both_count_the_support_of_subsets(group):
    reports = [*map(bytes.fromhex, group["reports"])]
    assert reference.support_of_subsets(group, reports) == group["support"]
    encoder = with_subsets(group)
    state = encoder.zeros()
    assert encoder.add(state, unhex(group["reports"])) == 0
    assert encoder.support(state, len(reports)).tolist() == group["support"]


@pytest.mark.parametrize("group", KEY_STREAMS["subsets"])
def test_both_answer_with_a_key_by_subsets(group):
    key, digest = bytes.fromhex(group["key"]), bytes.fromhex(group["digest"])
    about = group["maps"]
    words = reference.words_of_subsets(about, reference.Keyed(key, digest, 0, 0, 1, group["round"], ()))
    assert words == group["rows"]
    clients = Respondents(
        with_subsets(about), 1, lambda *part: Keyed(key, digest, part[0], 0, part[1], group["round"], part[2])
    )
    for case in group["cases"]:
        own = reference.bucket_of_subsets(about, words, case["value"])
        stream = reference.Keyed(key, digest, 0, 0, 2, group["round"], (own,))
        assert own == case["class"]
        assert reference.report_of_subsets(about, words, own, stream).hex() == case["report"]
        assert clients.reports(np.array([case["value"]])).tobytes().hex() == case["report"]


@every(REPORTS["solutions"])
def test_package_makes_the_reports_of_records(group):
    for case in group["cases"]:
        source = Fixed(bytes.fromhex(case["entropy"]))
        assert built_multi(group).perturb([case["values"]], source).tobytes().hex() == case["report"]
        assert not source.left


@every(REPORTS["solutions"])
def test_reference_client_makes_the_reports_of_records(group):
    sizes, names = group["sizes"], group["oracles"]
    share = reference.share_of(group["solution"], group["epsilon"], len(sizes))
    assert share == group["attribute_epsilon"]
    for name, size, about in zip(names, sizes, group["attributes"], strict=True):
        assert reference.parameters(reference.FAMILIES.get(name, name), share, size) == stated(about)
    for case in group["cases"]:
        stream = reference.Stream(bytes.fromhex(case["entropy"]))
        report = reference.multi_report(group["solution"], names, group["epsilon"], sizes, case["values"], stream)
        assert report.hex() == case["report"]
        assert len(report) == group["width"]
        assert stream.used == len(stream.data)


def fields(group):
    return (bytes.fromhex(group[key]) if key in ("key", "digest") else group[key] for key in STREAM)


STREAM = ("key", "digest", "attribute", "mode", "purpose", "round", "classes")


@pytest.mark.parametrize("group", KEY_STREAMS["streams"])
def test_streams_of_a_key_are_the_same_for_package_and_reference(group):
    size = len(group["bytes"]) // 2
    package, other = Keyed(*fields(group)), reference.Keyed(*fields(group))
    assert bytes(package.raw(size)).hex() == other.take(size).hex() == group["bytes"]


@every(KEY_STREAMS["answers"])
def test_a_client_that_repeats_itself_makes_the_reports_by_class(group):
    encoder, key, digest = built(group), bytes.fromhex(group["key"]), bytes.fromhex(group["digest"])
    rows = encoder.rows(1, Keyed(key, digest, 0, 0, 1, group["round"]))
    assert (rows[0].tolist() if rows is not None else []) == group["rows"]
    for case in group["cases"]:
        expected = (group["rows"], case["class"], bytes.fromhex(case["report"]))
        assert reference.repeated(*asked(group), case["value"], key, digest, group["round"]) == expected
        classes = encoder.classify(np.array([case["value"]]), rows)
        report = encoder.answer(classes, rows, Keyed(key, digest, 0, 0, 2, group["round"], tuple(classes.tolist())))
        assert (classes.tolist(), report.tobytes().hex()) == ([case["class"]], case["report"])


@pytest.mark.parametrize("group", TABLES["laws"], ids=lambda group: f"{group['buckets']}-{group['epsilon']}")
def test_package_and_reference_draw_the_tables(group):
    law, about = best(group["buckets"], group["epsilon"]), (group["buckets"], group["t"])
    assert (law.fixed_points, law.bound, float(law.p)) == (group["t"], group["bound"], group["p"])
    assert (law.hi, law.lo) == (int(group["hi"]), int(group["lo"]))
    assert reference.integers_of_table(*about, group["epsilon"]) == (law.hi, law.lo)
    for case in group["cases"]:
        source, stream = Fixed(bytes.fromhex(case["entropy"])), reference.Stream(bytes.fromhex(case["entropy"]))
        assert law.draw(1, source)[0].tolist() == case["table"]
        assert reference.draw_table(*about, law.hi, law.lo, stream) == case["table"]
        assert not source.left
        assert stream.used == len(stream.data)


@every(TABLES["answers"])
def test_a_client_with_a_table_looks_its_answers_up(group):
    points, key, digest = group["t"], bytes.fromhex(group["key"]), bytes.fromhex(group["digest"])
    encoder = oracle(*asked(group)[:1], epsilon=group["epsilon"], size=group["size"], table=points)
    values = np.array([case["value"] for case in group["cases"]])
    clients = Respondents(encoder, 1, lambda *about: Keyed(key, digest, about[0], 0, about[1], 0, about[2]))
    for case in group["cases"]:
        expected = (group["rows"], group["table"], case["class"], bytes.fromhex(case["report"]))
        assert reference.looked_up(*asked(group), points, case["value"], key, digest) == expected
        assert clients.reports(values[case["value"], None]).tobytes().hex() == case["report"]


@every(SUPPORT["oracles"])
def test_support_equals_a_count_by_definition(group):
    assert reference.support(*asked(group), map(bytes.fromhex, group["reports"])) == (group["n"], group["support"])


@every(SUPPORT["oracles"])
def test_package_counts_the_support(group):
    encoder = built(group)
    state = encoder.zeros()
    assert encoder.add(state, unhex(group["reports"])) == len(group["implausible"])
    assert encoder.support(state, group["n"]).tolist() == group["support"]


@every(SUPPORT["oracles"])
def test_the_named_reports_are_implausible(group):
    plausible = [part for i, part in enumerate(group["reports"]) if i not in group["implausible"]]
    assert reference.support(*asked(group), map(bytes.fromhex, plausible)) == (group["n"], group["support"])
    assert len(plausible) == group["n"]


@every(SUPPORT["numbers"])
def test_signs_of_numbers_equal_a_count_by_definition(group):
    reports = [*map(bytes.fromhex, group["reports"])]
    assert reference.halves(group["epsilon"], group["size"], reports) == (group["levels"], group["signs"])
    assert sum(group["levels"]) == group["n"] == len(reports)


@every(SUPPORT["numbers"])
def test_package_counts_the_signs_of_numbers(group):
    encoder = built(group)
    state = encoder.zeros()
    assert encoder.add(state, unhex(group["reports"])) == 0
    assert encoder.answering(state).tolist() == group["levels"]
    assert [part.tolist() for part in encoder.signs(state)] == group["signs"]
    shares = encoder.estimate(state, group["n"]).shares
    for j, (signs, n) in enumerate(zip(group["signs"], group["levels"], strict=True)):
        lower, upper = shares.reshape(-1, 2, 1 << j).sum(axis=2).T
        assert lower - upper == pytest.approx(np.array(signs) / (n * (2 * encoder.p - 1)))


@every(SUPPORT["solutions"])
def test_support_of_records_equals_a_count_by_definition(group):
    counts = reference.multi_support(
        group["solution"], group["oracles"], group["epsilon"], group["sizes"], map(bytes.fromhex, group["reports"])
    )
    assert counts == list(zip(group["n"], group["support"], strict=True))


@every(SUPPORT["solutions"])
def test_package_counts_the_support_of_records(group):
    encoder = built_multi(group)
    state = encoder.zeros()
    reports = unhex(group["reports"])
    assert encoder.add(state, reports) == 0
    assert [part.tolist() for part in encoder.support(state, len(reports))] == group["support"]
    assert [part.n for part in encoder.estimate(state, len(reports))] == group["n"]


EPSILONS = st.floats(1e-3, 16.0)
PLACES = st.floats(0, 1, exclude_max=True)
STREAMS = st.integers(0, 1 << 32).map(lambda seed: Random(seed).randbytes(40_000))


@settings(deadline=None)
@given(st.sampled_from(sorted(ORACLES.keys() - WITH_SUBSETS)), EPSILONS, st.integers(2, 900), PLACES, STREAMS)
def test_both_clients_agree_on_any_query(name, epsilon, size, place, data):
    value, source, stream = int(place * size), Fixed(data), reference.Stream(data)
    report = oracle(name, epsilon=epsilon, size=size).perturb([value], source).tobytes()
    assert report == reference.report(name, epsilon, size, value, stream)
    assert len(source.left) == len(data) - stream.used


@settings(deadline=None)
@given(
    st.sampled_from(["spl", "smp", "rsfd"]),
    EPSILONS,
    st.lists(st.tuples(st.integers(2, 40), st.integers(0, 3), PLACES), min_size=1, max_size=5),
    STREAMS,
)
def test_both_clients_agree_on_any_record(solution, epsilon, attributes, data):
    choice = ["grr", "oue_z", "oue_r", "sue_z"] if solution == "rsfd" else ["grr", "ss", "olh", "sue"]
    sizes, names = [size for size, _, _ in attributes], [choice[which] for _, which, _ in attributes]
    values, source, stream = [int(place * size) for size, _, place in attributes], Fixed(data), reference.Stream(data)
    report = multi(solution, sizes=sizes, epsilon=epsilon, oracle=names).perturb([values], source).tobytes()
    assert report == reference.multi_report(solution, names, epsilon, sizes, values, stream)
    assert len(source.left) == len(data) - stream.used


def content(case):
    return case["json"].encode() if "json" in case else bytes.fromhex(case["hex"])


@pytest.mark.parametrize("case", FRAMES["good"], ids=lambda case: case["name"])
def test_good_frames_are_read(case):
    frame = decode(content(case))
    assert frame.is_tick == case["tick"]
    if not frame.is_tick:
        assert frame.digest.hex() == case["digest"]
        assert frame.pane == int(case["pane"])
        assert (frame.id and frame.id.hex()) == case["id"]
        assert frame.n == case["n"]
        assert frame.reports.tobytes().hex() == case["reports"]
        assert (frame.group, frame.named_group and list(frame.named_group)) == (case["group"], case["named_group"])
        assert case["width"] is None or frame.reports.shape == (case["n"], case["width"])


@pytest.mark.parametrize("case", FRAMES["bad"], ids=lambda case: case["name"])
def test_bad_frames_are_refused(case):
    limit = {"limit": case["limit"]} if "limit" in case else {}
    width = case.get("query_width")
    if width:
        frame = decode(content(case))
        with pytest.raises(FrameError) as refused:
            frame.shaped(width)
    else:
        with pytest.raises(FrameError) as refused:
            decode(content(case), **limit)
    assert refused.value.reason == case["reason"]


@pytest.mark.parametrize("case", FRAMES["partitions"], ids=lambda case: f"{case['id']} of {case['partitions']}")
def test_ids_choose_partitions(case):
    assert partition_of(bytes.fromhex(case["id"]), case["partitions"]) == case["partition"]


def test_ids_choose_slots():
    cases = json.loads((VECTORS / "slots.json").read_text())
    assert len(cases) >= 200
    for case in cases:
        digest, name = bytes.fromhex(case["digest"]), bytes.fromhex(case["id"])
        count, spread = case["partitions"], case["spread"]
        assert partition_of(name, count, digest, spread) == case["partition"]
        assert case["partition"] in slots(digest, spread, count)
        for partition in {case["partition"], *slots(digest, spread, count), 0, count - 1}:
            place = place_in(digest, spread, count, partition)
            takes = place is not None and int.from_bytes(name, "little") % place[0] == place[1]
            assert takes == (partition == case["partition"])


def test_the_vectors_of_slots_can_be_made_again(tmp_path):
    target = tmp_path / "slots.json"
    subprocess.run([sys.executable, VECTORS / "slots.py", target], check=True)
    assert target.read_bytes() == (VECTORS / "slots.json").read_bytes()


def test_the_vectors_can_be_made_again(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, VECTORS / "make.py", tmp_path], check=True, env=environment)
    names = {path.name for path in tmp_path.iterdir()}
    # Those files come from programs of their own.
    others = {"crowd-state-0.1.json", "records.json", "slots.json"}
    assert names == {path.name for path in VECTORS.glob("*.json")} - others
    for name in names:
        assert (tmp_path / name).read_bytes() == (VECTORS / name).read_bytes()


def test_the_vectors_have_the_rare_cases():
    """A tie that wins, a tie that loses, a rejected integer and a repeated subset all occur."""
    lengths = {}
    for group in REPORTS["oracles"]:
        lengths.setdefault(asked(group), set()).update(len(case["entropy"]) // 2 for case in group["cases"])
    assert {8, 9} <= lengths["grr", 1.0, 3]
    assert {8, 11} <= lengths["grr", 1.0, 37]
    assert {1 + 4 * 36, 8 + 2 * 4 * 36} <= lengths["ss", 1.0, 37]


def test_the_page_shows_the_first_frame():
    match = re.search(r"```text\n(48 42 [0-9a-f \n]+)```", PAGE)[1]
    assert bytes.fromhex(match).hex() == FRAMES["good"][0]["hex"]
    in_json = decode(re.search(r'```json\n(\{"digest".*\})\n', PAGE)[1].encode()).shaped(4)
    binary = decode(bytes.fromhex(match))
    assert (in_json.digest, in_json.pane, in_json.id) == (binary.digest, binary.pane, binary.id)
    assert np.array_equal(in_json.reports, binary.reports)


def test_the_page_computes_its_example_as_both_clients_do():
    rows = re.findall(r"^\| (\d) \| `([0-9a-f ]+)` \|.*`([0-9a-f ]+)` \|$", PAGE, re.MULTILINE)
    assert len(rows) == 2
    for value, entropy, report in rows:
        source, stream = Fixed(bytes.fromhex(entropy)), reference.Stream(bytes.fromhex(entropy))
        answer = oracle("olh", epsilon=1.0, size=3).perturb([int(value)], source).tobytes()
        assert answer == reference.report("olh", 1.0, 3, int(value), stream) == bytes.fromhex(report)
        assert not source.left
        assert stream.used == len(stream.data)
    assert str(oracle("olh", epsilon=1.0, size=3).keep) in PAGE


def test_the_page_shows_the_digests_of_its_queries():
    canonical = re.findall(r'^\{"(?:domain|attributes)".*\}$', PAGE, re.MULTILINE)
    assert len(canonical) == 4
    for part in canonical:
        assert f"`{hashlib.sha256(part.encode()).hexdigest()[:16]}`" in PAGE
