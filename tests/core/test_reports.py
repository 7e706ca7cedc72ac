"""The core draws the reports of tests/vectors from the same bytes, and finds the same integers from epsilon."""

import ctypes
import json

import pytest

from tests.core import inside
from tests.core.compiler import ROOT, library

VECTORS = ROOT / "tests" / "vectors"


def vectors(name):
    return json.loads((VECTORS / f"{name}.json").read_text())


def report_from(oracle, value, source):
    """Return the report of a value, all from one source."""
    rows = inside.rows_of(oracle, source)
    return inside.report_of(oracle, inside.class_of(oracle, value, rows), rows, source)


def test_reports_follow_from_their_bytes():
    count = 0
    laws = vectors("reports")
    for law in [*laws["oracles"], *laws["subsets"]]:
        maps = law if law["oracle"] == "sub" else None
        oracle = inside.oracle_of(law["oracle"], law["epsilon"], law["size"], law, maps=maps)
        assert oracle.width == law["width"]
        for case in law["cases"]:
            source = inside.of_bytes(bytes.fromhex(case["entropy"]))
            assert report_from(oracle, case["value"], source).hex() == case["report"], (law["oracle"], case)
            assert source.position == len(case["entropy"]) // 2
            count += 1
    assert count > 400


def test_records_of_attributes_follow_from_their_bytes():
    laws = [law for law in vectors("reports")["solutions"] if law["solution"] != "rsfd"]
    for law in laws:
        epsilon = law["attribute_epsilon"]
        kinds = zip(law["oracles"], law["sizes"], law["attributes"], strict=True)
        oracles = [inside.oracle_of(name, epsilon, size, about) for name, size, about in kinds]
        for case in law["cases"]:
            source = inside.of_bytes(bytes.fromhex(case["entropy"]))
            if law["solution"] == "smp":
                number = inside.below(source, len(oracles))
                report = number.to_bytes(2, "little") + report_from(oracles[number], case["values"][number], source)
                report = report.ljust(law["width"], b"\0")
            else:
                parts = zip(oracles, case["values"], strict=True)
                report = b"".join(report_from(oracle, value, source) for oracle, value in parts)
            assert report.hex() == case["report"]
            assert source.position == len(case["entropy"]) // 2
    assert len(laws) > 2


def test_streams_of_a_key_have_the_same_bytes():
    library().hb_draw.restype = ctypes.c_uint64
    streams = [stream for stream in vectors("keyed")["streams"] if len(stream["classes"]) <= 1]
    for stream in streams:
        source = inside.of_key(
            bytes.fromhex(stream["key"]),
            bytes.fromhex(stream["digest"]),
            attribute=stream["attribute"],
            mode=stream["mode"],
            purpose=stream["purpose"],
            number=stream["round"],
            answer_class=(stream["classes"] or [0])[0],
        )
        stream_bytes = bytes(library().hb_draw(ctypes.byref(source), 1) for _ in range(len(stream["bytes"]) // 2))
        assert stream_bytes.hex() == stream["bytes"]
    assert len(streams) > 4


@pytest.mark.parametrize(("name", "group"), [("keyed", "answers"), ("keyed", "subsets"), ("tables", "answers")])
def test_a_key_draws_the_same_answers(name, group):
    for answer in vectors(name)[group]:
        points = answer.get("t")
        maps = answer.get("maps")
        about = maps or answer
        thresholds = answer["thresholds"]
        oracle = inside.oracle_of(about["oracle"], about["epsilon"], about["size"], thresholds, points, maps)

        def stream(purpose, answer_class=0, answer=answer):
            fields = {"attribute": 0, "mode": 0, "number": answer.get("round", 0), "answer_class": answer_class}
            purpose = inside.PURPOSES.index(purpose)
            return inside.of_key(
                bytes.fromhex(answer["key"]), bytes.fromhex(answer["digest"]), purpose=purpose, **fields
            )

        rows = inside.rows_of(oracle, stream("rows"))
        assert list(rows)[: len(answer["rows"])] == answer["rows"]
        for case in answer["cases"]:
            answer_class = inside.class_of(oracle, case["value"], rows)
            assert answer_class == case["class"]
            source = stream("answer", answer_class if points is None else -1)
            assert inside.report_of(oracle, answer_class, rows, source).hex() == case["report"]


def test_tables_follow_from_epsilon_and_their_bytes():
    library().hb_table_bound.restype = ctypes.c_uint64
    for law in vectors("tables")["laws"]:
        table = inside.Table(law["buckets"], law["t"], int(law["hi"]), int(law["lo"]))
        e = inside.exponential(law["epsilon"])
        assert library().hb_table_fits(ctypes.byref(table), ctypes.byref(e))
        bound = library().hb_table_bound(ctypes.byref(table), inside.bits_of(law["epsilon"]))
        assert bound == inside.bits_of(law["bound"]).value

        for hi, lo in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            other = inside.Table(law["buckets"], law["t"], int(law["hi"]) + hi, int(law["lo"]) + lo)
            assert not library().hb_table_fits(ctypes.byref(other), ctypes.byref(e))
        for case in law["cases"]:
            source = inside.of_bytes(bytes.fromhex(case["entropy"]))
            buckets = (ctypes.c_uint8 * 8)()
            library().hb_table_draw(ctypes.byref(table), ctypes.byref(source), buckets)
            assert list(buckets)[: law["buckets"]] == case["table"]
            assert source.position == len(case["entropy"]) // 2
