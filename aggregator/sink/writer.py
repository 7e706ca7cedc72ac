"""Writes waiting rows to files. What is in `finals` decides, so a kill at any moment costs nothing."""

import logging
import threading
import time
from dataclasses import replace
from typing import Any, Protocol

from aggregator.sink import row_file
from aggregator.sink.due_files import ReadProgress, SinkPlan, is_due, open_file_ends
from aggregator.sink.file_names import FINALS, OPEN, FileName, parse
from aggregator.sink.sink_state import PATH, SinkState
from aggregator.sink.waiting_rows import WaitingRows

log = logging.getLogger(__name__)


class Target(Protocol):
    """A place for files: a folder or an object store."""

    def take(self) -> None: ...
    def check(self) -> None: ...
    def close(self) -> None: ...
    def create(self, path: str, content: bytes) -> bool: ...
    def replace(self, path: str, content: bytes) -> None: ...
    def read(self, path: str) -> bytes | None: ...
    def delete(self, path: str) -> None: ...
    def modified(self, folder: str) -> dict[str, float]: ...


class Counts(Protocol):
    """The counters of a writer. Each has a method `inc`."""

    files: Any
    bytes: Any
    conflicts: Any
    last_write: Any


class Writer:
    """The files of one target, and the rows that wait for them."""

    def __init__(self, target: Target, waiting_rows: WaitingRows, plan: SinkPlan, counts: Counts) -> None:
        self._target = target
        self._waiting_rows = waiting_rows
        self._plan = plan
        self._counts = counts
        self._turn = threading.Lock()
        """Held while files are written: a stop comes while another thread writes."""
        self._file_times: dict[FileName, dict[int, float]] = {}
        """The time of the last change of each file of a name in `finals`, by its late number."""
        self._state = b""

    def check(self) -> None:
        """Raise TargetRefused if another sink has taken the target over."""
        self._target.check()

    def start(self) -> None:
        """Look at the files that are there, and let the rows of open files wait for theirs."""
        self.look()
        # A first try may have failed half-way, so it leaves nothing.
        for name in list(self._waiting_rows.names):
            self._waiting_rows.drop(name)
        for name in self._open_names():
            if name not in self._file_times and self._plan.has_query(name.query):
                content = self._target.read(name.path(OPEN))
                if content is not None:
                    self._waiting_rows.add_open(name, row_file.decode(content))

    def look(self) -> None:
        """Look which files `finals` has."""
        times: dict[FileName, dict[int, float]] = {}
        for path, moment in self._target.modified(FINALS).items():
            place = parse(path)
            if place is not None:
                name, number = place
                times.setdefault(name, {})[number] = moment
        self._file_times = times

    def write(self, progress: ReadProgress, state: SinkState) -> None:
        """Write what is due, then the open files, then the state. Remove what is no longer needed."""
        with self._turn:
            self.look()
            for name in sorted(self._waiting_rows.names):
                is_late = name in self._file_times and progress.is_at_end
                if is_late or is_due(name, progress, self._plan.settle):
                    self._write_finals(name)
            if progress.is_at_end and self._plan.interval is not None:
                self._write_open_files()
            # The state comes last, or a kill would skip finals that no file has.
            self._save(state)
            self._remove(progress.time)

    def stop(self, state: SinkState, seconds: float) -> None:
        """Write the open files and the state before the end of the process, in so many seconds."""
        if not self._turn.acquire(timeout=seconds):
            return
        try:
            if self._plan.interval is not None:
                self._write_open_files(time.monotonic() + seconds)
            self._save(state)
        finally:
            self._turn.release()

    def _write_finals(self, name: FileName) -> None:
        """Write the waiting finals of a name that its files lack, to the first free number."""
        rows = self._waiting_rows.rows(name)
        numbers = sorted(self._file_times.get(name, {}))
        finals_in_files = []
        for number in numbers:
            content = self._target.read(name.path(FINALS, number))
            if content is not None:
                finals_in_files.append(row_file.finals_in(content))

        number = numbers[-1] + 1 if numbers else 0
        while True:
            new_rows = row_file.once(rows, finals_in_files)
            if new_rows.is_empty():
                break
            path = name.path(FINALS, number)
            content = row_file.encode(new_rows)
            if self._target.create(path, content):
                self._note(path, content, new_rows.height)
                self._file_times.setdefault(name, {})[number] = time.time()
                break

            # Another writer was faster. Its finals are not written again.
            self._counts.conflicts.inc()
            content_of_rival = self._target.read(path)
            if content_of_rival is not None:
                finals_in_files.append(row_file.finals_in(content_of_rival))
                number += 1
        self._waiting_rows.drop(name)

    def _write_open_files(self, deadline: float = float("inf")) -> None:
        """Write each name with new finals, the longest waiting first."""
        waiting = sorted(self._waiting_rows.names.items(), key=lambda item: item[1].oldest_time)
        for name, finals in waiting:
            if finals.oldest_time == float("inf") or name in self._file_times:
                continue
            if time.monotonic() > deadline:
                return
            # The waiting rows begin with those of the last open file, so none is lost.
            rows = row_file.once(self._waiting_rows.rows(name), [])
            path = name.path(OPEN)
            content = row_file.encode(rows)
            self._target.replace(path, content)
            self._note(path, content, rows.height)
            finals.oldest_time = float("inf")

    def _note(self, path: str, content: bytes, rows: int) -> None:
        self._counts.files.inc()
        self._counts.bytes.inc(len(content))
        self._counts.last_write.set(time.time())
        log.info("%s: %d rows, %d bytes", path, rows, len(content))

    def _save(self, state: SinkState) -> None:
        rows = self._waiting_rows
        offsets = {partition: rows.next_offset(partition, position) for partition, position in state.offsets.items()}
        content = replace(state, offsets=offsets).encode()
        if content != self._state:
            self._target.replace(PATH, content)
            self._state = content

    def _remove(self, moment: float) -> None:
        """Remove open files whose rows are in `finals` long enough, and files of days that are too old."""
        for name in self._open_names():
            times = self._file_times.get(name)
            if times is not None and moment >= open_file_ends(name, min(times.values())):
                self._target.delete(name.path(OPEN))

        # Finals of these days are no longer read, so no late file follows.
        for name, numbers in self._file_times.items():
            if self._plan.is_old(name, moment):
                for number in numbers:
                    self._target.delete(name.path(FINALS, number))
                self._target.delete(name.path(OPEN))

    def _open_names(self) -> list[FileName]:
        places = map(parse, self._target.modified(OPEN))
        return [place[0] for place in places if place is not None]
