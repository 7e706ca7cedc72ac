"""The bytes of records, records of maps, alerts, states and blocks stay as they are.

A hash may change only if a new version of the record, or of what an alert says, is meant to change its bytes. Then
`python tests/vectors/records.py` writes the file again, in a commit of its own, after a check that old and new records
differ in nothing else.
"""

import json
import os
import subprocess
import sys
import zlib
from collections import Counter

import pytest

from aggregator.records import digits
from tests.vectors.record_cases import CASES
from tests.vectors.records import GOLDEN, hashes, short_hashes, text_of

CONTENT = json.loads(GOLDEN.read_bytes())
HINT = (
    "differ from tests/vectors/records.json. If the bytes are meant to change, the record needs a new version: "
    "run `python tests/vectors/records.py`, and commit the file alone."
)


def differences(name, rows):
    """Return the labels of a case whose hashes differ. Two builds of zlib can compress the same maps differently."""
    golden_rows = Counter(map(tuple, CONTENT["cases"][name]))
    new_rows = Counter(map(tuple, rows))
    labels = {label for label, _ in (golden_rows - new_rows) | (new_rows - golden_rows)}
    has_same_zlib = CONTENT["zlib"] == zlib.ZLIB_RUNTIME_VERSION
    # Maps have the key of their final, whose bytes are the same with every zlib.
    labels_of_finals = {label for label, _ in golden_rows & new_rows}
    return sorted(label for label in labels if has_same_zlib or label not in labels_of_finals)


@pytest.mark.parametrize("name", CASES)
def test_the_bytes_are_those_of_the_golden_file(name):
    labels = differences(name, short_hashes(name))
    assert not labels, f"{len(labels)} of {len(CONTENT['cases'][name])} labels, such as {labels[0]}, {HINT}"


def test_one_digit_fewer_changes_records_and_alerts(monkeypatch):
    monkeypatch.setattr(digits, "DIGITS", digits.DIGITS - 1)
    monkeypatch.setattr(digits.rounded, "__defaults__", (digits.DIGITS,))
    labels = differences("several", short_hashes("several"))
    assert len(labels) > 200
    assert any("|surge|" in label for label in labels)


def test_the_cases_have_every_product_and_the_file_is_written_as_it_is():
    labels = [label for rows in CONTENT["cases"].values() for label, _ in rows]
    for part in ("|state ", "|block", "|enter|", "|leave|", "|surge|", "|fade|", "|a:", "|g:"):
        assert any(part in label for label in labels), part
    # Maps have the key of their final.
    finals = Counter(label for label in labels if label.startswith("errors|") and label.count("|") == 5)
    assert max(finals.values()) > 1
    assert text_of(CONTENT).encode() == GOLDEN.read_bytes()


def test_the_command_prints_the_hashes_of_any_file_of_cases(tmp_path):
    cases = {"one": CASES["rejects"]().end(), "two": CASES["many_numbers"]().end()}
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(cases))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, GOLDEN.with_name("records.py"), path]
    run = subprocess.run(command, check=True, env=environment, cwd=tmp_path, capture_output=True)
    assert json.loads(run.stdout) == {name: hashes(content) for name, content in cases.items()}
