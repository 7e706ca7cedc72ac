"""Reads the finals of a query from the topic `estimates`, from its beginning to its current end."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from aggregator.reading.tail.notation import label
from aggregator.records.decoder import decode
from aggregator.records.maps_record import MAPS_END, is_maps, maps_of, record_of, record_without_maps
from aggregator.records.record import Record
from aggregator.records.words import WITHHELD
from hubbub.definitions import formats_record
from hubbub.definitions.follower import Follower
from hubbub.kafka.clients import partitions
from hubbub.kafka.log_reader import open_log
from hubbub.kafka.settings import ESTIMATES, LARGEST, MAPS, Kafka
from hubbub.moments import utc
from hubbub.next_window import next_window
from oracles.errors import ParameterError, ReportError
from oracles.query import Query
from oracles.query.settings import Window, nearest

log = logging.getLogger(__name__)

_Key = tuple[str, str | None, str | None, str, int, int, int]


async def finals(
    kafka: Kafka,
    query: str,
    is_match: Callable[[Record], bool],
    progress: Callable[[int, int], None] | None = None,
    texts: Sequence[str] | None = None,
    *,
    groups: Collection[str] = (),
) -> list[Record]:
    """Return the matching finals of a query, each window, attribute and group once. Skip invalid records.

    With `texts` each final of unknown strings has the shares of these texts in place of its names. `groups` are
    those that match. A query that has neither a definition nor finals is an error, and so is a group without finals.
    """
    # Without a right to `maps` the topic looks as if it did not exist. Its maps are then named as missing.
    counts = await partitions(kafka, ESTIMATES, optional=[] if texts is None else [MAPS])
    # Records of a higher version of the formats may mean something else.
    await formats_record.check(kafka)
    matches: dict[_Key, Record] = {}
    maps: dict[_Key, bytes] = {}
    ends_of: dict[str, tuple[int, int]] = {}
    """The first and the last end of a window, for each query."""
    groups_of_query: set[str | None] = set()

    topics = {name: range(count) for name, count in counts.items()}
    async with open_log(kafka, topics, max_partition_fetch_bytes=LARGEST) as log_reader:
        tps = log_reader.partitions
        reader = log_reader.consumer
        begins = await reader.beginning_offsets(tps)
        total = sum(log_reader.ends[tp] - begins[tp] for tp in tps)
        async for batches in log_reader.batches_to_end():
            for record in chain(*batches.values()):
                if record.topic == kafka.topic(MAPS) or is_maps(record.key):
                    key = None if texts is None else _key_of_maps(record.key or b"", query)
                    if key is not None and record.value is not None:
                        maps[key] = record.value
                    continue

                final = _read(record)
                if final is None:
                    continue
                end = final.span.end
                earliest_end, newest_end = ends_of.get(final.query, (end, end))
                ends_of[final.query] = min(earliest_end, end), max(newest_end, end)
                if final.query != query:
                    continue
                groups_of_query.add(final.group)
                # A final that a worker repeats after a restart has the same key, so each window is here once.
                if is_match(final):
                    matches[_window_key(final)] = final

            if progress is not None:
                progress(sum([await reader.position(tp) - begins[tp] for tp in tps]), total)

    if not matches:
        reason = no_match(query, ends_of)
        definition = await _definition(kafka, query)
        if query not in ends_of and definition is None:
            raise ParameterError(reason)
        unknown = "" if query not in ends_of else no_group(query, groups, groups_of_query)
        if unknown:
            raise ParameterError(unknown)
        log.warning("%s", reason)
        if definition is not None:
            log.warning("%s", outlook(definition, time.time()))

    if texts is not None:
        matches = await _asked(kafka, matches, maps, texts)
    records = sorted(matches.values(), key=_order)
    for text in gaps(records):
        log.warning("%s", text)
    return records


async def next_final(kafka: Kafka, name: str) -> str:
    """Return when the next final of a query comes, as a sentence. Empty if nothing defines the query any more."""
    definition = await _definition(kafka, name)
    return "" if definition is None else outlook(definition, time.time())


async def _definition(kafka: Kafka, name: str) -> Query | None:
    """Return the active definition of this name, or else a retired one."""
    async with Follower(kafka) as follower:
        retired = (query for query in follower.definitions.queries.values() if query.name == name)
        return follower.definitions.active.get(name) or next(retired, None)


def outlook(query: Query, present: float) -> str:
    """Return when the next final of a query can be there, and what it needs."""
    arrival = next_window(query, present)
    if arrival is None:
        return f"query {query.name} has ended, so no further final comes"
    needs = "a worker that runs, and reports"
    if query.crowd > 1:
        needs += f" of at least {query.crowd:,} people"
    return (
        f"the next window of {query.name} {arrival.ends(present)} at {utc(arrival.end)}, "
        f"its final comes soon after {utc(arrival.due)}; "
        f"it needs {needs}"
    )


async def panes(kafka: Kafka) -> dict[str, int]:
    """Return the pane of each definition in seconds, by its digest."""
    async with Follower(kafka) as follower:
        return {digest.hex(): query.pane for digest, query in follower.definitions.queries.items()}


async def _asked(
    kafka: Kafka, matches: Mapping[_Key, Record], maps: Mapping[_Key, bytes], texts: Sequence[str]
) -> dict[_Key, Record]:
    """Return the finals of unknown strings with the shares of these texts. A withheld one stays as it is."""
    async with Follower(kafka) as follower:
        queries = follower.definitions.queries
    return answers(queries, matches, maps, texts)


def answers(
    queries: Mapping[bytes, Query], matches: Mapping[_Key, Record], maps: Mapping[_Key, bytes], texts: Sequence[str]
) -> dict[_Key, Record]:
    """Return the finals with the shares of these texts. Raise a ParameterError if their query lists its values.

    A final whose maps are lost has no shares. Log how many there are, and why.
    """
    result: dict[_Key, Record] = {}
    reasons: Counter[str] = Counter()
    for key, record in matches.items():
        query = queries.get(bytes.fromhex(record.digest))
        value = maps.get(key)
        if record.withheld:
            result[key] = record
            continue
        if record.discover() is None:
            reasons["their definition lists its values"] += 1
            continue

        result[key] = record_without_maps(record, texts)
        if query is None:
            reasons["their definition is not in the topic of queries"] += 1
        elif value is None:
            reasons["their maps are not in the topic maps, or the user may not read it"] += 1
        else:
            try:
                record_maps = maps_of(record, value, query)
                if record_maps is not None:
                    result[key] = record_of(record, record_maps, texts)
            except ReportError as error:
                log.warning("maps of a final of query %s that ends at %d: %s", record.query, record.span.end, error)
                reasons["their maps cannot be read"] += 1

    # Nobody can ask a query for strings if it lists its values, so an empty table would hide the mistake.
    definitions = [queries.get(bytes.fromhex(record.digest)) for record in matches.values()]
    if not result and any(query is not None and query.strings is None for query in definitions):
        raise ParameterError("the query has no unknown strings to ask for; leave `ask` out")
    for reason, count in reasons.items():
        log.warning("finals without shares, because %s: %d of %d", reason, count, len(matches))
    return result


def _key_of_maps(key: bytes, query: str) -> _Key | None:
    """Return the window of a record of maps, or None if it is of another query. Anybody may write there."""
    try:
        name, digest, kind, size, step, end = key.removesuffix(MAPS_END).decode().split("|")
        return (digest, None, None, kind, int(size), int(step), int(end)) if name == query else None
    except ValueError:
        return None


def no_match(query: str, ends: Mapping[str, tuple[int, int]]) -> str:
    """Return why no final matches, from the first and the last end of the finals of each query."""
    if not ends:
        return "there are no finals yet, of any query"
    if query not in ends:
        return f"there are no finals of query {query!r}; {nearest(query, sorted(ends))}"
    earliest, newest_end = (datetime.fromtimestamp(end, UTC).isoformat() for end in ends[query])
    return f"no final of query {query} matches; its finals end from {earliest} to {newest_end}"


def no_group(query: str, groups: Collection[str], groups_of_query: Collection[str | None]) -> str:
    """Return which of these groups the query does not have, and the groups of its finals. Empty if it has them all."""
    missing = [group for group in groups if group not in groups_of_query]
    if not missing:
        return ""
    names = sorted(filter(None, groups_of_query))
    choices = nearest(missing[0], names) if names else "they have no groups"
    return f"there are no finals of query {query} of the group {missing[0]!r}; {choices}"


def gaps(records: Sequence[Record]) -> list[str]:
    """Return since when the newest windows of a query are withheld and why, for each attribute and kind of window."""
    series: dict[tuple[str, str | None, str | None, Window], list[Record]] = {}
    """The withheld windows since the newest one with values."""
    for record in records:
        windows = series.setdefault((record.digest, record.attribute, record.group, record.span.window), [])
        if record.withheld:
            windows.append(record)
        else:
            windows.clear()
    return [_gap(windows) for windows in series.values() if windows]


def _gap(windows: Sequence[Record]) -> str:
    record = windows[0]
    name = ", ".join(part for part in (record.query, record.attribute, record.group) if part is not None)
    start = datetime.fromtimestamp(record.span.end, UTC).isoformat()
    reason = WITHHELD[windows[-1].withheld or "small"].short
    return f"{name} {label(record.span.window)}: windows since {start} are {reason}"


def _read(record: Any) -> Record | None:
    """Return the final in a record, or None if it holds none. Anybody may write there."""
    if record.value is None:
        return None
    try:
        final = decode(record.value)
    except ValueError as error:
        log.warning("%s, partition %d, offset %d: %s", record.topic, record.partition, record.offset, error)
        return None
    return final if final.final else None


def _order(record: Record) -> tuple[int, int, str, str]:
    return record.span.end, record.span.window.size, record.attribute or "", record.group or ""


def _window_key(record: Record) -> _Key:
    window, _, end = record.span
    return record.digest, record.attribute, record.group, window.kind, window.size, window.step, end
