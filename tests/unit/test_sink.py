"""A sink writes each final to one file, which never changes, whatever stops it."""

import hashlib
import itertools
import os
import re
import resource
import time
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from prometheus_client import Counter

from aggregator.errors import TargetRefused
from aggregator.records.decoder import decode
from aggregator.sink import row_file, target_report
from aggregator.sink.due_files import ReadProgress, SinkPlan, is_due, open_file_ends
from aggregator.sink.file_names import FINALS, OPEN, FileName, parse
from aggregator.sink.folder import Folder
from aggregator.sink.metrics import SinkMetrics
from aggregator.sink.sink_state import PATH, Gap, SinkState, lost
from aggregator.sink.waiting_rows import WaitingRows
from aggregator.sink.writer import Writer
from hubbub.command.metrics import MetricRow
from oracles.errors import ParameterError
from tests.boards import START
from tests.sinks import contents, files_of, final, keys, rows_of, view, waiting_rows

END = START // 3600 * 3600 + 3600
PRESENT = 4_000_000_000
STATE = SinkState("hubbub.", "day")


def progress(now=PRESENT, pane=0, read_through=float("inf")):
    return ReadProgress(time=now, read_through=read_through, closed_through={"homepage": pane})


class Nothing:
    def inc(self, _=1):
        pass

    set = inc


def record(end, **fields):
    return decode(final(end, **fields)[2])


def add(waiting, ends, start=0, **fields):
    for finals in waiting_rows(ends, start, **fields):
        waiting.add(*finals)


def counts():
    return SimpleNamespace(files=Nothing(), bytes=Nothing(), conflicts=Nothing(), last_write=Nothing())


@contextmanager
def sink(folder, kind=Folder, **plan):
    """Return a writer to a folder and its waiting rows, as a process has them after its start."""
    target = kind(folder)
    with closing(target), closing(WaitingRows()) as waiting:
        target.take()
        writer = Writer(target, waiting, SinkPlan(interval=plan.pop("every", 60), **plan), counts())
        writer.start()
        yield writer, waiting


@pytest.mark.parametrize(
    ("size", "files", "end", "path"),
    [
        (60, "day", 86_400, "query=homepage/day=1970-01-01/tumbling-60-60.parquet"),
        (60, "day", 86_401, "query=homepage/day=1970-01-02/tumbling-60-60.parquet"),
        (10, "day", 7_200, "query=homepage/day=1970-01-01/tumbling-10-10.01.parquet"),
        (60, "hour", 7_210, "query=homepage/day=1970-01-01/tumbling-60-60.02.parquet"),
        (3_600, "hour", 7_200, "query=homepage/day=1970-01-01/tumbling-3600-3600.parquet"),
    ],
)
def test_the_name_follows_from_the_end_of_the_window(size, files, end, path):
    name = FileName.of(record(end, size=size), files)
    assert name.path(FINALS) == f"finals/{path}"
    assert parse(f"finals/{path}") == (name, 0)
    assert parse(name.path(OPEN, 12)) == (name, 12)
    assert name.end - name.period < end <= name.end
    assert parse(f"finals/{path}.tmp") is None


@pytest.mark.parametrize("query", ["../x", "a/../../../b", "a/b", "", "a\0b", "a\n", "query=a"])
def test_a_name_that_leads_out_of_the_target_is_refused(query):
    with pytest.raises(ValueError, match="is no name of a query"):
        FileName.of(record(END, query=query), "day")


def test_a_window_of_a_year_that_no_file_can_have_is_refused():
    with pytest.raises(ValueError, match="year"):
        FileName.of(record(10**12), "day")


def test_a_file_is_due_when_its_query_is_closed_or_retired_or_two_days_later():
    name = FileName.of(record(END), "day")
    assert not is_due(name, progress(END + 100, END + 599), 600)
    assert is_due(name, progress(END + 100, END + 600), 600)
    assert is_due(name, progress(END + 172_800), 600)
    assert is_due(name, ReadProgress(END + 100, float("inf"), retired={"homepage"}), 600)
    assert not is_due(name, progress(pane=END + 600, read_through=END + 172_799), 600)
    assert is_due(name, progress(read_through=END + 172_800), 600)
    assert open_file_ends(name, END + 5.0) == END + 7_200


def test_a_file_has_equal_bytes_for_equal_rows_and_their_order(tmp_path):
    tables = []
    for ends in (range(START, START + 60, 10), range(START + 50, START - 10, -10)):
        with closing(WaitingRows()) as waiting:
            add(waiting, ends)
            tables.append(row_file.encode(waiting.rows(next(iter(waiting.names)))))
    assert tables[0] == tables[1]
    path = tmp_path / "a.parquet"
    path.write_bytes(tables[0])
    assert pl.read_parquet_metadata(path)["hubbub.rows"] == "1"
    assert pl.read_parquet(path)["end"].is_sorted()


def test_files_of_an_older_release_are_read_together_with_newer_ones(tmp_path):
    with closing(WaitingRows()) as waiting:
        add(waiting, [START])
        new = waiting.rows(next(iter(waiting.names))).select(row_file.SCHEMA.keys())
    old = new.select(list(row_file.SCHEMA)[:-3])
    old.write_parquet(tmp_path / "old.parquet")
    assert row_file.decode((tmp_path / "old.parquet").read_bytes()).equals(new.with_columns(reason=pl.lit(None, str)))


def test_the_first_final_of_a_key_counts_and_a_late_one_comes_in_a_file_of_its_own(tmp_path):
    with sink(tmp_path) as (writer, waiting):
        add(waiting, [END, END - 10], n=400)
        add(waiting, [END], n=300)
        writer.write(progress(), STATE)
        first = contents(tmp_path)
        assert set(rows_of(first)["n"]) == {400}
        assert not waiting.names

        add(waiting, [END - 10, END - 20, END - 20], n=200)
        writer.write(progress(), STATE)
        add(waiting, [END - 10, END - 20])
        writer.write(progress(), STATE)
    files = contents(tmp_path)
    assert first.items() < files.items()
    assert [path.rpartition("/")[2] for path in files] == [
        "tumbling-10-10.22.late-1.parquet",
        "tumbling-10-10.22.parquet",
    ]
    assert set(rows_of(files).filter(pl.col("n") == 200)["end"]) == {END - 20}
    keys(rows_of(files))


def test_the_page_has_each_metric_of_a_sink():
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    section = page.partition("\n## Sink\n")[2].partition("\n## ")[0]
    rows = set(re.findall(r"^\| `(\w+)` \| (\w+) \| (\w*) *\| (.*?) \|", section, re.MULTILINE))
    metrics = [row for row in vars(SinkMetrics).values() if isinstance(row, MetricRow)]
    assert len(metrics) == len(rows)
    for row in metrics:
        kind = "counter" if row.kind is Counter else "gauge"
        name = f"{row.name}_total" if kind == "counter" else row.name
        assert (name, kind, "".join(row.labels), row.text) in rows


def test_a_damaged_file_is_named_and_nothing_is_written(tmp_path):
    with sink(tmp_path) as (writer, waiting):
        add(waiting, [END])
        writer.write(progress(), STATE)
    (path,) = tmp_path.glob("finals/**/*.parquet")
    path.write_bytes(path.read_bytes()[:-7])
    with sink(tmp_path) as (writer, waiting):
        add(waiting, [END - 10], start=1)
        with pytest.raises(TargetRefused, match="no Parquet file"):
            writer.write(progress(), STATE)
    assert len(list(tmp_path.glob("finals/**/*.parquet"))) == 1


def test_a_writer_that_was_paused_writes_only_what_another_one_lacks(tmp_path):
    with sink(tmp_path) as (writer, waiting):
        add(waiting, [END, END - 10])
        writer.look()
        paused_look = writer.look
        writer.look = lambda: None
        other = Folder(tmp_path)
        other._lock = writer._target._lock
        with closing(WaitingRows()) as rows_of_other:
            add(rows_of_other, [END])
            Writer(other, rows_of_other, SinkPlan(interval=None), writer._counts).write(progress(), STATE)
        writer.write(progress(), STATE)
        writer.look = paused_look
    files = contents(tmp_path)
    assert len(files) == 2
    assert set(rows_of(files)["end"]) == {END, END - 10}
    keys(rows_of(files))


def test_an_open_file_is_replaced_until_its_period_ends_and_stays_for_readers(tmp_path):
    now = time.time()
    with sink(tmp_path) as (writer, waiting):
        add(waiting, [END - 20])
        writer.write(progress(END), STATE)
        assert set(rows_of(contents(tmp_path, OPEN))["end"]) == {END - 20}
    # The topic may have lost the final meanwhile, but the file has it.
    with sink(tmp_path) as (writer, waiting):
        add(waiting, [END - 10])
        writer.write(progress(END), STATE)
        assert set(rows_of(contents(tmp_path, OPEN))["end"]) == {END - 20, END - 10}
        assert not contents(tmp_path)
        writer.write(progress(now, pane=END + 600), STATE)
        assert set(rows_of(contents(tmp_path))["end"]) == {END - 20, END - 10}
        assert contents(tmp_path, OPEN)
        finals, open_rows = view(tmp_path)
        assert open_rows.is_empty()
        writer.write(progress(now + 7_200), STATE)
        assert not contents(tmp_path, OPEN)
    assert finals.height


def test_old_days_are_deleted_only_if_asked(tmp_path):
    with sink(tmp_path) as (writer, waiting):
        add(waiting, [END])
        writer.write(progress(), STATE)
    assert contents(tmp_path)
    with sink(tmp_path, keep=86_400) as (writer, _):
        writer.write(progress(END + 2 * 86_400), STATE)
    assert not contents(tmp_path)
    assert not list((tmp_path / FINALS).iterdir())


def test_the_state_is_below_all_waiting_finals(tmp_path):
    with sink(tmp_path, every=None) as (writer, waiting):
        add(waiting, [END], start=7)
        writer.write(progress(END), SinkState("hubbub.", "day", offsets={0: 9, 1: 4}))
        state = SinkState.decode((tmp_path / PATH).read_bytes())
        assert state.offsets == {0: 7, 1: 4}
        assert not contents(tmp_path, OPEN)
        writer.write(progress(), SinkState("hubbub.", "day", offsets={0: 9, 1: 4}))
    assert SinkState.decode((tmp_path / PATH).read_bytes()).offsets == {0: 9, 1: 4}


def test_a_state_fits_its_settings_and_names_what_was_lost():
    gap = Gap(0, 3, 8, 1)
    state = SinkState("hubbub.", "day", frozenset("ab"), {0: 3, 1: 5}, (gap,))
    assert SinkState.decode(state.encode()) == state
    assert state.continued(SinkState("hubbub.", "day", frozenset("a"))).offsets == state.offsets
    everything = state.continued(SinkState("hubbub.", "day"))
    assert everything.offsets == {}
    assert everything.gaps == (gap,)
    for refusal in (SinkState("other.", "day"), SinkState("hubbub.", "hour")):
        with pytest.raises(TargetRefused):
            state.continued(refusal)
    with pytest.raises(TargetRefused, match="delete it"):
        SinkState.decode(b"{}")
    assert lost(state.offsets, {0: 8, 1: 5}, 9) == [Gap(0, 3, 8, 9)]
    assert state.with_gaps([Gap(0, 3, 8, 9), Gap(1, 5, 6, 9)]).gaps == (gap, Gap(1, 5, 6, 9))


def test_the_doctor_says_what_a_sink_lacks_and_what_is_lost():
    state = SinkState("hubbub.", "day", None, {0: 3, 1: 5}, (Gap(0, 1, 2, 9),))
    begins, ends = {0: 3, 1: 2, 2: 4}, {0: 1_003, 1: 5, 2: 10}
    (line,) = target_report.lines("/data", state, begins, ends)
    assert line == "sink: /data has all finals but those of the newest 1,006 records in `finals`; gaps: 1 known"
    assert not list(target_report.needs("/data", state, "hubbub.", begins))
    (need,) = target_report.needs("/data", state, "hubbub.", {0: 8, 1: 2})
    assert "lost offsets 3 to 7 of partition 0" in need
    (need,) = target_report.needs("/data", state, "other.", begins)
    assert "exits with 4" in need
    assert "has no state" in next(target_report.lines("/data", None, begins, ends))
    assert not list(target_report.needs("/data", None, "hubbub.", begins))


def test_a_full_disk_leaves_no_file_and_a_moved_folder_is_noticed(tmp_path):
    root = tmp_path / "target"
    target = Folder(root)
    with closing(target):
        target.take()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            with pytest.raises(OSError, match="too large"):
                target.create("finals/a.parquet", bytes(1_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert [path.name for path in (root / "_sink").iterdir()] == ["lock"]
        assert target.create("finals/a.parquet", b"1")
        assert not target.create("finals/a.parquet", b"2")
        assert (root / "finals" / "a.parquet").read_bytes() == b"1"

        root.rename(tmp_path / "away")
        with pytest.raises(FileNotFoundError):
            target.replace("open/a.parquet", b"1")
        (root / "_sink").mkdir(parents=True)
        (root / "_sink" / "lock").touch()
        with pytest.raises(TargetRefused, match="replaced"):
            target.replace("open/a.parquet", b"1")


def test_a_start_that_failed_can_be_repeated(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    target = Folder(tmp_path)
    with closing(target), closing(WaitingRows()) as waiting:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            with pytest.raises(OSError, match="too large"):
                target.take()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        target.take()
        name, rows = files_of([END])
        target.replace(name.path(OPEN), row_file.encode(rows))
        writer = Writer(target, waiting, SinkPlan(interval=None), counts())
        for _ in range(2):
            writer.start()
        writer.write(progress(), STATE)
    assert rows_of(contents(tmp_path)).height == rows.height


def test_waiting_rows_of_a_killed_sink_are_removed_and_those_of_another_one_stay(tmp_path):
    spool = tmp_path / "new" / "spool"
    with closing(WaitingRows(spool)):
        (present,) = spool.iterdir()
        leftover = spool / "hubbub-sink-killed"
        leftover.mkdir()
        (leftover / "1").write_bytes(b"rows")
        young = spool / "hubbub-sink-young"
        young.mkdir()
        (spool / "hubbub-sink-link").symlink_to(tmp_path)
        for folder in (present, leftover):
            os.utime(folder, (0, 0))
        with closing(WaitingRows(spool)):
            names = {folder.name for folder in spool.iterdir()}
            assert {present.name, young.name, "hubbub-sink-link"} < names
            assert leftover.name not in names
            assert len(names) == 4
    leftover.write_bytes(b"")
    with pytest.raises(ParameterError, match=r"--spool: .* cannot hold the waiting rows: Not a directory"):
        WaitingRows(leftover / "1")


class Killed(BaseException):
    pass


def steps(kill_at):
    """Return a kind of folder whose process dies before or after its step of this number, and the count of steps."""
    count = itertools.count()

    def mortal(work):
        def run(*arguments):
            if next(count) == kill_at:
                raise Killed
            result = work(*arguments)
            if next(count) == kill_at:
                raise Killed
            return result

        return run

    class Mortal(Folder):
        def __init__(self, root):
            super().__init__(root)
            for name in ("_temporary", "_make_folders", "create", "replace", "delete"):
                setattr(self, name, mortal(getattr(self, name)))

    return Mortal, count


def test_a_kill_at_any_step_loses_and_repeats_nothing(tmp_path):
    """The first life is cut off at each step in turn. The second reads again from where the state says."""
    ends = [END, END - 10, END + 3_600, END - 20]
    number = 0
    while True:
        folder = tmp_path / str(number)
        kind, count = steps(number)
        digests = {}
        try:
            with sink(folder, kind) as (writer, waiting):
                for last in (2, 4):
                    add(waiting, ends[last - 2 : last], start=last - 2)
                    now = PRESENT if last == 4 else END
                    writer.write(progress(now), SinkState("hubbub.", "day", offsets={0: last}))
                    check(folder, digests)
        except Killed:
            pass
        else:
            break
        check(folder, digests)
        with sink(folder) as (writer, waiting):
            path = folder / PATH
            start = SinkState.decode(path.read_bytes()).offsets[0] if path.exists() else 0
            add(waiting, ends[start:], start=start)
            writer.write(progress(), SinkState("hubbub.", "day", offsets={0: 4}))
            check(folder, digests)
        assert set(rows_of(contents(folder))["end"]) == {*ends}
        assert not list((folder / "_sink").glob("temporary-*"))
        number += 1
    assert number > 15
    assert next(count) == number


def check(folder, digests):
    """Fail if a file of `finals` has changed or vanished, or a row is there twice."""
    files = {path: hashlib.sha256(content).digest() for path, content in contents(folder).items()}
    assert digests.items() <= files.items()
    digests |= files
    finals, open_rows = view(folder)
    assert keys(finals).isdisjoint(keys(open_rows))
