"""The bytes in docs/way-of-a-report.md, made by the product's own code: `make pages`."""

import json
import re
import sys
import tempfile
import tomllib
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from aggregator.publishing.finals.final import window_result  # noqa: E402
from aggregator.publishing.window import CountedWindow  # noqa: E402
from aggregator.records.span import Span  # noqa: E402 - the path comes first
from aggregator.tallies import clock_record, progress  # noqa: E402
from aggregator.tallies.clock_record import ClockRecord, Numbered  # noqa: E402
from aggregator.tallies.id_log import IdEntry, encode_ids  # noqa: E402
from aggregator.tallies.keys import PaneKey, PartitionKey, home  # noqa: E402
from aggregator.tallies.progress import Progress  # noqa: E402
from aggregator.tallies.snapshot import Snapshot, encode_snapshot  # noqa: E402
from aggregator.tallies.tally import Tally, encode_tally  # noqa: E402
from oracles.frame import encode, partition_of  # noqa: E402
from oracles.query import parse  # noqa: E402
from producers import Client  # noqa: E402

PAGE = ROOT / "docs" / "way-of-a-report.md"
PANE, ANSWERED, LOGGED = 1_700_000_000, 1_700_000_003.25, 1_700_000_003_412
PARTITIONS, OFFSET = 12, 4_711
NAME, KEY = bytes(range(1, 9)), bytes(range(32))
OTHERS = (2_000, 5_999, 1_000)
"""The support of the values among the other reports of the window."""
FRAME = (
    "4 magic, 1 version, 1 flags, 2 width of a report, 8 digest, 8 pane, 8 id of the frame, "
    "4 number of reports, 4 padding, 1 report"
)
IDS = "4 version and form, 4 number of ids, 8 offset of the first, 8 id"
TALLY_HEAD = "1 version, 1 closed, 6 padding, 8 next offset, 8 clock"
SNAPSHOT = (
    "4 version; flags; type of the counts, 8 number of counts, 8 reports, 8 implausible reports, 8 duplicate reports, "
    "3 counts of the values, 64 marks of poisoning"
)
PROGRESS = "1 version, 8 next offset, 8 clock, 8 closed clock, 16 id of reports, 16 id of snapshots"
CLOCK = (
    "1 version, 1 zero, 2 partitions of the reports, 16 id of reports, 16 id of snapshots, 2 number of clocks, "
    "2 number of offsets, 2 partition, 8 clock, 2 partition of snapshots, 8 offset behind its newest snapshot"
)
_BLOCK = re.compile(r"(<!-- (\w+) -->\n```text\n).*?(```)", re.DOTALL)


def blocks(text: str) -> dict[str, str]:
    """Return the content of each block of the page, for the query that the page shows."""
    (toml,) = re.findall("```toml\n(.*?)```", text, re.DOTALL)
    query = parse(tomllib.loads(toml), PAGE.name, ".")["homepage"]
    with tempfile.TemporaryDirectory() as folder:
        client = Client(query, store=f"{folder}/answers.db", key=KEY, first=True, clock=lambda: ANSWERED)
        report = client.answer("b.example")
    frame = encode(query.digest, PANE, report, NAME)
    partition = partition_of(NAME, PARTITIONS)

    tally = Tally(query.oracle.zeros(), n=1, next_offset=OFFSET + 1, clock=LOGGED)
    query.oracle.add(tally.counts, report)
    state = Progress(OFFSET + 1, LOGGED, closed_clock=LOGGED)
    closed_clock = 1000 * (PANE + 10 + query.lateness) + 1
    clock = ClockRecord(
        partitions=PARTITIONS,
        clocks=Numbered.of({partition: closed_clock}),
        offsets=Numbered.of({home(query.digest, PARTITIONS): 1}),
    )
    snapshot = encode_snapshot(tally.snapshot())
    total = Snapshot(9_000, 0, 0, 0, tally.counts + np.append(OTHERS, np.zeros(len(tally.counts) - 3, np.int64)))
    window = CountedWindow(query, Span(query.windows[0], PANE, PANE + 10), total)
    (key, value), *_ = window_result(window).window.records
    record = json.loads(value)
    row = record["values"].index("b.example")
    shown = {name: record[name][row] for name in ("values", "stderr", "low", "high")}
    shown |= {method: shares[row] for method, shares in record["shares"].items()}

    def pane(kind: str, span: tuple[int, int] | None = None) -> str:
        return PaneKey(kind, query.digest, PANE, partition, span).encode().decode()

    return {
        "digest": f"digest   {query.digest.hex()}\n",
        "report": dump(report.tobytes(), "1 value"),
        "frame": dump(frame, FRAME),
        "partition": f"{int.from_bytes(NAME, 'little')} mod {PARTITIONS} = {partition}\n",
        "ids": f"key  {pane('ids', (OFFSET, OFFSET))}\n" + dump(encode_ids([IdEntry(NAME, OFFSET)]), IDS),
        "tally": f"key  {pane('tally')}\n" + dump(encode_tally(tally), f"{TALLY_HEAD}, {SNAPSHOT}"),
        "progress": f"key  {PartitionKey('progress', partition, 'WRITER.1').encode().decode()}\n"
        + dump(progress.encode(state), PROGRESS),
        "snapshot": f"key  {pane('closed')}\n" + dump(snapshot, SNAPSHOT),
        "clock": "key  clock|WRITER.1\n" + dump(clock_record.encode(clock), CLOCK),
        "total": f"n        {total.n:,}\nsupport  {', '.join(f'{count:,}' for count in total.counts[:3])}\n",
        "record": f"key       {key.decode()}\n" + "".join(f"{name:9} {text}\n" for name, text in shown.items()),
    }


def dump(data: bytes, form: str) -> str:
    """Return a line for each field of a form: position, bytes in hex, name. A long row of zeros is counted."""
    lines, start = [], 0
    for field in form.split(", "):
        width, name = field.split(" ", 1)
        part = data[start : start + int(width)]
        text = f"{width} zeros" if len(part) > 16 and not any(part) else part.hex(" ")
        lines.append(f"{start:3}  {text:23}  {name}\n")
        start += int(width)
    if start != len(data):
        raise ValueError(f"{len(data)} bytes, and fields for {start}")
    return "".join(lines)


def page(text: str) -> str:
    made = blocks(text)
    if sorted(made) != sorted(name for _, name, _ in _BLOCK.findall(text)):
        raise ValueError(f"{PAGE.name} must have these blocks: {', '.join(made)}")
    return _BLOCK.sub(lambda block: block[1] + made[block[2]] + block[3], text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
