"""The golden hashes of records, alerts, states and blocks.

    $ python tests/vectors/records.py CASES.json     prints the hashes of these cases
    $ python tests/vectors/records.py                writes records.json, with those of record_cases.py

A case has a query file and a log: `{CASE: {"queries": TABLES, "log": [[[TIME, HEX], ...], ...]}}`. The log has a list
for each partition, with the broker's time in milliseconds and the bytes of each record. The result is
`{CASE: [[LABEL, SHA256], ...]}`. Finals are computed as `hubbub audit` does.
"""

import json
import sys
import zlib
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from aggregator.publishing.finals.final import ResultSequence
from aggregator.reading.audit.fold import Fold
from hubbub.definitions.catalog import Definitions
from hubbub.definitions.versions import Versions
from oracles.frame import MAX_FRAME
from oracles.query import parse
from tests.vectors.record_cases import CASES

GOLDEN = Path(__file__).with_name("records.json")
SHORT = 12
"""Digits of a hash in records.json."""


def hashes(content, folder=None):
    """Return the label and the hash of each record, alert, state and block of a case.

    Two windows with one end have the same labels for their states, so a label can occur several times.
    """
    queries = parse(content["queries"], "the case", folder)
    catalog = Definitions({query.digest: Versions.of(query) for query in queries.values()})
    fold = Fold(catalog, len(content["log"]), log_has_time=True, limit=MAX_FRAME)
    for partition, records in enumerate(content["log"]):
        run = [(offset, time, bytes.fromhex(text)) for offset, (time, text) in enumerate(records)]
        fold.read(partition, run)
    return [[label, sha256(data).hexdigest()] for label, data in _products(fold, catalog)]


def _products(fold, catalog):
    """Yield the label and the bytes of all that the finals of a log leave."""
    for versions in catalog.versions.values():
        query = versions.query
        results = ResultSequence()
        for final in fold.finals(versions):
            result = results.next(query, final)
            for key, value in (*result.window.records, *result.window.maps, *result.decision.alerts):
                yield key.decode(), value

            place = f"{query.name}|{final.span.end}"
            for attribute, state in enumerate(result.decision.states):
                yield f"{place}|state {attribute}", state
            for block in result.decision.blocks.values():
                yield f"{place}|block", block


def golden():
    """Return the content of records.json. It has the first digits of each hash.

    The bytes of maps depend on zlib, so the file names its version.
    """
    return {"zlib": zlib.ZLIB_RUNTIME_VERSION, "cases": {name: short_hashes(name) for name in CASES}}


def short_hashes(name):
    """Return the rows of a case in records.json."""
    return [[label, text[:SHORT]] for label, text in hashes(CASES[name]().end())]


def text_of(content):
    """Return the text of records.json, with one line for each hash."""
    groups = []
    for name, rows in content["cases"].items():
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        groups.append(f"{json.dumps(name)}: [\n{lines}\n]")
    inside = ",\n".join(groups)
    return f'{{"zlib": "{content["zlib"]}", "cases": {{\n{inside}\n}}}}\n'


def main(arguments):
    if not arguments:
        GOLDEN.write_text(text_of(golden()))
        return
    path = Path(arguments[0])
    contents = json.loads(path.read_bytes())
    results = {name: hashes(content, path.parent) for name, content in contents.items()}
    sys.stdout.write(json.dumps(results) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
