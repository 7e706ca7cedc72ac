"""The readers of all that comes from outside: of topics, files and ports. A row each."""

import argparse
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import cramjam
import orjson

from aggregator.board.parameters import Parameters
from aggregator.board.route import ROUTES
from aggregator.board.store import Store
from aggregator.counting import clock, ids, tally
from aggregator.counting.admission import Gate
from aggregator.counting.changelog import ChangelogUnreadable, saved
from aggregator.counting.partition import SourcePartition
from aggregator.merging import crowd, merge
from aggregator.merging.snapshots import Shelf
from aggregator.publishing import alert, changes, record_reader
from aggregator.publishing.accuracy import Truths
from aggregator.reading.export.table import by_column
from aggregator.reading.tail.overview import Overview
from aggregator.topics import keys
from hubbub import definitions, inflation, kafka, options, secret, truth
from hubbub.definitions import corrections
from hubbub.definitions.table import dump
from hubbub.definitions.versions import Versions
from hubbub.errors import KafkaSettingError
from hubbub.problem import Problem
from oracles import frame, query
from oracles.errors import FrameError, ParameterError, QueryError, ReportError
from producers.advertised import pinned
from producers.entropy import Mode
from producers.errors import NotAllowed, StoreError
from producers.gateway import submission
from producers.gateway.definitions import ServedDefinitions
from producers.gateway.tokens import Account, Tokens, short_lived
from producers.ledger import Ledger
from producers.simulation import distribution, replay, scenario
from producers.spool import Spool
from tests.boards import HOMEPAGE, PROFILE, QUERIES, START
from tests.unit.fuzz import corpus
from tests.unit.fuzz.corpus import CELLS

NOW = START + 100
VERSIONS = {query.digest: Versions.of(query) for query in QUERIES.values()}
MIB = 1 << 20


@dataclass(frozen=True)
class Reader:
    """A reader and what it is fed with."""

    name: str
    """module:name of the function, as the code has it."""
    corpus: Callable[[], Sequence[bytes | str]]
    read: Callable[[bytes, Path], object]
    """With a folder for files."""
    errors: tuple[type[Exception], ...] = ()
    """Those that it may raise; any other is a fault."""
    memory: int = 2 * MIB
    """Bytes that it may take beside 64 times what it reads."""
    steps: int = 20_000
    """Lines of Python that it may run, beside 100 for each byte that it reads."""
    through: tuple[str, ...] = field(default=())
    """Other readers that it calls."""


def _file(read: Callable[[Path], object], name: str = "file", **others: str) -> Callable[[bytes, Path], object]:
    """Of a path."""

    def run(data: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(data)
        for other, text in others.items():
            (folder / f"{other}.txt").write_text(text)
        return read(path)

    return run


def _text(read: Callable[[str], object]) -> Callable[[bytes, Path], object]:
    return lambda data, _: read(data.decode("utf-8", "surrogateescape"))


def _bytes(read: Callable[[bytes], object]) -> Callable[[bytes, Path], object]:
    return lambda data, _: read(data)


def _source(data: bytes) -> None:
    """As a worker counts a frame, and writes down what comes of it."""
    source = SourcePartition(Gate(0, 1, VERSIONS), "w")
    at = 1000 * START
    source.take(
        [(0, at, frame.TICK), (1, at + 1, data), (2, at + 2, corpus.reports()[1]), (3, at + 60_000, frame.TICK)]
    )
    assert source.next_offset == 4
    draft = source.draft(whole=True)
    assert all(len(reject.start) <= 32 for reject in draft.rejects)
    source.settled(draft)


def _shelf(data: bytes) -> None:
    """Under each of its keys."""
    shelf = Shelf(keys.home(HOMEPAGE.digest, 2), 2, VERSIONS, changes.check_states)
    for key in corpus.KEYS:
        shelf.put(key.encode(), data, 0)
    shelf.put(data, b"x", 0)
    shelf.load()
    for key in corpus.KEYS:
        shelf.put(key.encode(), data, 0)
    for slot in shelf.slots.values():
        list(slot.merger.finals())
        list(slot.merger.provisional())


def _changelog(data: bytes) -> None:
    for key in (*corpus.KEYS[:3], data.decode("latin-1")):
        with suppress(ChangelogUnreadable):
            saved([(key.encode(), data)], VERSIONS)


def _store(take: Callable[[Store, bytes], object]) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        store = Store(86_400, MIB, lambda: NOW)
        for key, value in corpus.defined()[:2]:
            store.define(key, value)
        take(store, data)
        for route in ROUTES[:4]:
            for name in store.names if route.of_query else [""]:
                try:
                    orjson.dumps(route.answer.of(store, Parameters([], route.known), name), default=repr)
                except Problem:
                    continue

    return read


def _definitions(data: bytes) -> None:
    """As a value under good keys, and as a key."""
    good = corpus.defined()
    for key, value in (*((key, data) for key, _ in good), (data, good[0][1]), (data, None)):
        known = definitions.read([definitions.TopicRecord(key, value, 1000 * START)])
        assert len(known.unread) <= 1
        for versions in known.versions.values():
            dump(versions.query)


def _ledger(path: Path) -> None:
    Path(f"{path}.key").write_bytes(corpus.store()[1])
    with Ledger(path).page() as page:
        digest = HOMEPAGE.digest
        page.spent("homepage", digest, 1.0, 0)
        page.total(digest, 0)
        page.everything()
        page.charged(digest, 0, Mode.KEPT, 1.0)
        page.round(digest), page.given(digest), page.report(digest, 0), page.last("homepage"), page.names()


def _spool(data: bytes, folder: Path) -> None:
    spool = Spool(folder / "spool")
    spool.clear()
    for name in ("0001020304050607", "x"):
        (spool.folder / f"{name}.frame").write_bytes(data)
    for sealed in spool.frames():
        assert (sealed.id, sealed.data) == (bytes(range(8)), data)


def _truths(data: bytes) -> None:
    truths = Truths()
    truths.put(data, NOW)
    for known in QUERIES.values():
        truths.shares(known, record_reader.decode(corpus.published()["estimates"][0])[0].span)


def _tail(data: bytes) -> None:
    overview = Overview()
    overview.take(data)
    overview.hear(data)
    for track in overview.tracks.values():
        track.late(NOW)


def _tokens(path: Path) -> None:
    Tokens.read(path)


def _caller(text: str) -> None:
    accounts = {"app": Account("app", hashes=(bytes(32),)), "site": Account("site", keys=(bytes(32),))}
    Tokens(accounts).caller(text, NOW)


def _submission(kind: str) -> Callable[[bytes], object]:
    known = ServedDefinitions.of(QUERIES)
    return lambda data: submission.read(data, kind, known, 1000 * START + 3000, MIB)


def _inflated(data: bytes) -> None:
    for codec, compress in ((1, cramjam.gzip), (2, cramjam.snappy), (3, cramjam.lz4), (4, cramjam.zstd)):
        packed = bytearray(bytes(compress.compress(data)))
        if packed:
            packed[len(data) % len(packed)] ^= 1 << len(data) % 8
        for body in (data, bytes(packed)):
            try:
                inflation.inflate(codec, body)
            except inflation.CorruptRecordException:
                continue


def _by_column(data: bytes) -> None:
    by_column(record_reader.decode(data))


def _positions(path: Path) -> None:
    list(replay.Positions(path, HOMEPAGE))
    list(replay.Positions(path, PROFILE))


BEARERS = [f"Bearer {short_lived('site', bytes(32), 1 << 40)}", "Bearer abc", "Basic x"]
CSV = ["site,n\nnews.example,1\nwiki.example,2\n,\nx\n", 'age,sex\n3,f\n7,m\n"9",m\n']
COUNTS = ["value,count\nnews.example,3\nwiki.example,0.5\n", '"value","count"\n"a,b",7\n']
LAWS = ["zipf:1.1", "0.7*zipf:1.1+0.3*uniform", "beta:2,5", "geometric:0.3", "uniform", "file:nowhere"]
PLAIN = {"oracle": "grr", "epsilon": 1.0, "pane": "1s", "answers": "once"}
JSON = (ReportError, ValueError)

READERS = (
    Reader("oracles.frame:decode", lambda: [*corpus.reports(), *corpus.vectors()], _bytes(frame.decode), (FrameError,)),
    Reader("oracles.frame:header", corpus.vectors, _bytes(frame.header)),
    Reader("oracles.frame:frames", corpus.submissions, _bytes(lambda data: [bytes(f) for f in frame.frames(data)])),
    Reader("aggregator.counting.partition:SourcePartition.take", corpus.reports, _bytes(_source), memory=8 * MIB),
    Reader("hubbub.inflation:inflate", corpus.submissions, _bytes(_inflated), memory=130 * MIB),
    Reader("aggregator.counting.clock:decode", corpus.progress, _bytes(clock.decode), (ReportError,)),
    Reader(
        "aggregator.counting.tally:decode_snapshot",
        corpus.snapshots,
        _bytes(lambda data: tally.decode_snapshot(data, CELLS)),
        (ReportError,),
    ),
    Reader(
        "aggregator.counting.tally:decode_tally",
        corpus.tallies,
        _bytes(lambda data: tally.decode_tally(data, CELLS)),
        (ReportError,),
        through=("aggregator.counting.tally:decode_open",),
    ),
    Reader("aggregator.counting.ids:decode_ids", corpus.segments, _bytes(ids.decode_ids), (ReportError,)),
    Reader(
        "aggregator.counting.changelog:saved",
        lambda: [*corpus.tallies(), *corpus.segments(), *corpus.progress()],
        _bytes(_changelog),
    ),
    Reader("aggregator.topics.keys:decode", lambda: corpus.KEYS, _bytes(keys.decode)),
    Reader(
        "aggregator.merging.merge:decode_state",
        corpus.states,
        _bytes(lambda data: merge.decode_state(data, CELLS)),
        (ReportError,),
    ),
    Reader(
        "aggregator.merging.crowd:decode",
        corpus.shown,
        _bytes(lambda data: crowd.decode(data, None, CELLS)),
        (ReportError,),
    ),
    Reader(
        "aggregator.merging.snapshots:Shelf.load",
        lambda: [*corpus.snapshots(), *corpus.tallies(), *corpus.progress(), *corpus.states(), *corpus.KEYS],
        _bytes(_shelf),
        memory=8 * MIB,
        steps=200_000,
    ),
    Reader("aggregator.publishing.changes:load", corpus.alert_states, _bytes(changes.load), (ReportError,)),
    Reader(
        "aggregator.publishing.record_reader:decode",
        lambda: corpus.published()["estimates"],
        _bytes(record_reader.decode),
        JSON,
        through=("aggregator.publishing.schema:read",),
    ),
    Reader(
        "aggregator.reading.export.table:by_column",
        lambda: corpus.published()["estimates"],
        _bytes(_by_column),
        JSON,
        through=("aggregator.reading.export.reader:read",),
    ),
    Reader("aggregator.publishing.alert:decode", lambda: corpus.published()["alerts"], _bytes(alert.decode), JSON),
    Reader("hubbub.truth:decode", lambda: corpus.published()["truth"], _bytes(truth.decode), JSON),
    Reader("aggregator.publishing.accuracy:Truths.put", lambda: corpus.published()["truth"], _bytes(_truths)),
    *(
        Reader(
            f"aggregator.board.store:Store.{take.__name__}",
            lambda topic=topic: corpus.published()[topic],
            _bytes(_store(take)),
            JSON,
            memory=8 * MIB,
            steps=200_000,
        )
        for topic, take in (
            ("estimates", Store.take_record),
            ("alerts", Store.take_alert),
            ("truth", Store.take_truth),
        )
    ),
    Reader(
        "aggregator.reading.tail.overview:Overview.take",
        lambda: [*corpus.published()["estimates"], *corpus.published()["alerts"]],
        _bytes(_tail),
    ),
    Reader(
        "hubbub.definitions:read",
        lambda: [part for write in corpus.defined() for part in write],
        _bytes(_definitions),
        memory=32 * MIB,
        steps=200_000,
        through=("hubbub.definitions.corrections:decode", "oracles.query:parse"),
    ),
    Reader(
        "hubbub.definitions.corrections:parse",
        lambda: ["3:5:9=none", "3:5:9=2026-01-01T10:00:00Z", "3:5:9=1700000000000"],
        _text(corrections.parse),
        (ParameterError,),
    ),
    Reader(
        "oracles.query:load",
        lambda: [corpus.QUERY_FILE],
        _file(query.load, values=corpus.VALUES),
        (QueryError,),
        memory=64 * MIB,
        steps=200_000,
        through=(
            "oracles.query:load_file",
            "oracles.query.text:read_toml",
            "oracles.query.settings:read_windows",
            "oracles.query.settings:read_methods",
            "oracles.query.settings:read_threshold",
            "oracles.query.domain:read_domain",
            "oracles.query.domain:read_sets",
            "oracles.query.counted:read_one",
            "oracles.query.counted:read_several",
            "producers.gateway.definitions:ServedDefinitions.read",
        ),
    ),
    Reader(
        "oracles.query.text:read_text",
        lambda: [corpus.VALUES],
        _file(
            lambda path: query.parse(
                {
                    "queries": {
                        "q": {
                            "domain": {"file": path.name},
                            "oracle": "grr",
                            "epsilon": 1.0,
                            "pane": "1s",
                            "answers": "once",
                        }
                    }
                },
                "test",
                path.parent,
            ),
        ),
        (QueryError,),
    ),
    Reader(
        "producers.simulation.scenario:read_scenario",
        corpus.scenarios,
        _file(lambda path: scenario.read_scenario(path, HOMEPAGE)),
        (QueryError,),
        through=("producers.simulation.scenario:parse_scenario",),
    ),
    Reader(
        "producers.simulation.distribution:read_crowd",
        lambda: LAWS,
        _text(lambda text: distribution.read_crowd([text], HOMEPAGE)),
        (ParameterError,),
        through=("producers.simulation.distribution:read_law",),
    ),
    Reader(
        "producers.simulation.distribution:read_law",
        lambda: COUNTS,
        _file(lambda path: distribution.read_law(f"file:{path}", HOMEPAGE.domains[0])),
        (ParameterError,),
    ),
    Reader("producers.simulation.replay:Positions", lambda: CSV, _file(_positions), (ParameterError,)),
    Reader("producers.ledger:Ledger", lambda: [corpus.store()[0]], _file(_ledger), (StoreError,)),
    Reader(
        "producers.vault:Vault.read",
        lambda: [corpus.store()[1]],
        lambda data, folder: (
            (folder / "store").write_bytes(corpus.store()[0]),
            (folder / "store.key").write_bytes(data),
            Ledger(folder / "store"),
        ),
        (StoreError,),
    ),
    Reader("producers.spool:Spool.frames", corpus.reports, _spool, (StoreError,)),
    Reader(
        "producers.advertised:pinned",
        lambda: [corpus.listing()],
        _bytes(lambda data: [pinned(data, name, 1.0, "test") for name in ("homepage", "profile")]),
        (QueryError, NotAllowed),
        memory=32 * MIB,
        steps=200_000,
    ),
    Reader("producers.gateway.tokens:Tokens.read", lambda: [corpus.TOKENS], _file(_tokens), (QueryError, Problem)),
    Reader("producers.gateway.tokens:Tokens.caller", lambda: BEARERS, _text(_caller), (Problem,)),
    Reader(
        "producers.gateway.submission:inflated",
        corpus.inflatable,
        _bytes(lambda data: submission.inflated(data, MIB)),
        (Problem,),
    ),
    *(
        Reader(
            "producers.gateway.submission:read",
            corpus.submissions,
            _bytes(_submission(kind)),
            (Problem,),
        )
        for kind in (submission.FRAMES, submission.JSON)
    ),
    Reader(
        "hubbub.secret:read",
        lambda: ["a secret\n", "one\r\n", "x" * 65_536],
        _file(lambda path: secret.read("X_FILE", str(path))),
        (ParameterError,),
    ),
    Reader(
        "hubbub.kafka:parse_servers",
        lambda: ["a:1,b:2", "[::1]:9092"],
        _text(kafka.parse_servers),
        (KafkaSettingError,),
    ),
    Reader("hubbub.kafka:parse_prefix", lambda: ["hubbub.", "a-b_c"], _text(kafka.parse_prefix), (KafkaSettingError,)),
    *(
        Reader(
            f"hubbub.options:{read.__name__}",
            lambda: ["1e6", "0.05", "max", "1.5KiB", "64MiB", "30m", "8801"],
            _text(read),
            (argparse.ArgumentTypeError,),
        )
        for read in (options.share, options.rate, options.size, options.duration, options.port, options.frame_size)
    ),
)

NO_READERS = {
    "hubbub.kafka:read_all": "moves what Kafka has; what it holds, `hubbub.definitions:read` reads",
    "hubbub.kafka:Kafka.read": "options and environment, which parse_servers, parse_prefix and secret read",
    "aggregator.counting.recovery:Recovery.read": "moves the changelog, which `saved` reads",
    "aggregator.reading.audit.fold:Fold.read": "counts frames by the Gate that `SourcePartition.take` has",
    "aggregator.publishing.estimator:read": "moves what the other end of the process's own pipe wrote",
    "producers.gateway.bodies:Bodies.read": "moves a body within its bounds; what is in it, `submission` reads",
    "producers.gateway.definitions:Standing.read_lately": "waits",
}
"""Functions that are called as readers are, and are none, each with its reason."""
