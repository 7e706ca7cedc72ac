"""A row for each reader of outside data from topics, files and ports."""

import argparse
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from pathlib import Path

import cramjam
import orjson
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from aggregator.board.answers.parameters import Parameters
from aggregator.board.server.route import ROUTES
from aggregator.board.server.viewers import ViewerFile
from aggregator.board.store import notes
from aggregator.board.store.store import Store
from aggregator.counting.admission.gate import Gate
from aggregator.counting.changelog import ChangelogUnreadable, sort_records
from aggregator.counting.partition import SourcePartition
from aggregator.errors import TargetRefused
from aggregator.merging import block_records, marks, name_history, snapshot_records
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.publishing.accuracy import Truths
from aggregator.publishing.alerts import state
from aggregator.reading.audit.ranges import read_final
from aggregator.reading.tail.overview import Overview
from aggregator.records import alert as message
from aggregator.records import decoder, maps_record, name_rows
from aggregator.records import status as query_status
from aggregator.records.flat_rows import column_lists
from aggregator.sink import file_names
from aggregator.sink.sink_state import Gap, SinkState
from aggregator.tallies import clock_record, id_log, keys, progress, snapshot, tally
from hubbub import secret, true_counts
from hubbub.asked import list_folder, signatures
from hubbub.asked.asked_list import AskedError
from hubbub.command import options
from hubbub.definitions import catalog, formats
from hubbub.definitions.table import dump
from hubbub.definitions.versions import Versions
from hubbub.http.problem import Problem
from hubbub.kafka import oauth, settings
from hubbub.kafka.errors import KafkaSettingError, KafkaUnreachable
from hubbub.kafka.patches import bounded_batches
from oracles import frame, query
from oracles.errors import FrameError, ParameterError, QueryError, ReportError
from oracles.query.public_definition import public_definition
from producers.client.key_item import KeyItem
from producers.client.ledger import Ledger
from producers.client.transaction import NoiseId
from producers.errors import NotAllowed, StoreError
from producers.gateway.access.tokens import Account, Tokens, short_lived
from producers.gateway.intake import submission
from producers.gateway.intake.active_definitions import ServedDefinitions
from producers.gateway.intake.state_answer import CountedQuery, state_text
from producers.publishers.known_state import KnownState, Moment
from producers.publishers.pinned_query import pin_query
from producers.publishers.spool import Spool
from producers.simulation import replay
from producers.simulation.crowd import crowd_groups, distribution, note_crowd, scenario, words
from tests.asked import KEYS, PEOPLE, ask, make_list
from tests.boards import HOMEPAGE, PROFILE, QUERIES, START
from tests.queries import make_query, make_table
from tests.unit.fuzz import corpus
from tests.unit.fuzz.corpus import CELLS

NOW = START + 100
FILE_PATH = "finals/query=homepage/day=2026-11-27/tumbling-60-60.00.late-2.parquet"
SAVES = make_query(domain=["none", "1", "more"], recorder={"keep": "count", "edges": [0, 1, 2]}, period="1d")
STATE = state_text([CountedQuery("homepage", public_definition(HOMEPAGE), is_stopped=True)])
SINK = SinkState("hubbub.", "day", frozenset({"homepage"}), {0: 17}, (Gap(0, 3, 5, 1_700_000_000),)).encode()
VIEWERS = b'[tokens.shop]\nsha256 = ["' + b"ab" * 32 + b'"]\nqueries = ["shop_*"]\n[public]\nqueries = ["open"]\n'
CRASHES = query.parse(tomllib.loads(corpus.STRINGS), "test", None)["crashes"]
PLATFORMS = make_query(name="screens", domain=4, groups={"platform": ["ios", "web"]})
VERSIONS = {query.digest: Versions.of(query) for query in QUERIES.values()}
MIB = 1 << 20


@dataclass(frozen=True)
class Reader:
    """A reader, its inputs and its limits."""

    name: str
    """The module and the name of the function, as `module:name`."""
    corpus: Callable[[], Sequence[bytes | str]]
    read: Callable[[bytes, Path], object]
    """The function that reads bytes. It gets a folder for files."""
    errors: tuple[type[Exception], ...] = ()
    """The exceptions that the reader may raise. Any other exception is a fault."""
    memory: int = 2 * MIB
    """The limit of memory in bytes, in addition to 64 times the size of the input."""
    steps: int = 20_000
    """The limit of executed lines of Python, in addition to 100 for each byte of input."""
    through: tuple[str, ...] = field(default=())
    """The names of other readers that this reader calls."""


def _file(read: Callable[[Path], object], name: str = "file", **others: str) -> Callable[[bytes, Path], object]:
    """Return a reader of bytes that writes them to a file and calls a reader of files."""

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
    """Count a frame and draft a checkpoint, like a worker."""
    source = SourcePartition(Gate(0, 1, VERSIONS), "w")
    at = 1000 * START
    source.take(
        # A tick before and a tick long after it, so that a clock exists and the pane closes.
        [(0, at, frame.TICK), (1, at + 1, data), (2, at + 2, corpus.reports()[1]), (3, at + 60_000, frame.TICK)]
    )
    assert source.next_offset == 4
    plan = source.plan(whole=True)
    assert all(len(reject.start) <= 32 for reject in plan.rejects)
    source.settle(plan)


def _snapshots(data: bytes) -> None:
    """Load the data under each key of the corpus, and as a key."""
    snapshots = SnapshotPartition(keys.home(HOMEPAGE.digest, 2), 2, VERSIONS, state.check_states)
    for key in corpus.KEYS:
        snapshots.put(key.encode(), data)
    snapshots.put(data, b"x")
    snapshots.load()
    for key in corpus.KEYS:
        snapshots.put(key.encode(), data)
    for query_state in snapshots.queries.values():
        list(query_state.merger.finals())
        list(query_state.merger.provisional())


def _changelog(data: bytes) -> None:
    for key in (*corpus.KEYS[:3], data.decode("latin-1")):
        with suppress(ChangelogUnreadable):
            sort_records([(key.encode(), data)], VERSIONS)


def _store(take: Callable[[Store, bytes], object]) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        store = Store(86_400, MIB, lambda: NOW)
        for key, value in corpus.definition_writes()[:2]:
            store.define(key, value)
        take(store, data)
        for route in ROUTES[:4]:
            for name in store.names if route.of_query else [""]:
                try:
                    orjson.dumps(route.answer.of(store, Parameters([], route.all_parameters), name), default=repr)
                except Problem:
                    continue

    return read


def _definitions(data: bytes) -> None:
    """Read the data as a value under good keys, and as a key."""
    good_writes = corpus.definition_writes()
    for key, value in (*((key, data) for key, _ in good_writes), (data, good_writes[0][1]), (data, None)):
        definitions = catalog.read([catalog.TopicRecord(key, value, 1000 * START)])
        assert len(definitions.unreadable) <= 1
        for versions in definitions.versions.values():
            dump(versions.query)


def _ledger(path: Path) -> None:
    # Without its key a store is refused before it is read.
    Path(f"{path}.key").write_bytes(corpus.store()[1])
    with Ledger(path).transaction() as transaction:
        digest = HOMEPAGE.digest
        transaction.round_charge("homepage", digest, 1.0, 0)
        transaction.active_charge(0.0)
        transaction.total_charge()
        transaction.noise_charge(NoiseId(digest, 0))
        transaction.join_expired(digest, 0.0)
        transaction.last_round(digest), transaction.count_answers(digest), transaction.once_report(digest, 0)
        transaction.answer_time("homepage"), transaction.names()


def _spool(data: bytes, folder: Path) -> None:
    spool = Spool(folder / "spool")
    spool.clear()
    for name in ("0001020304050607", "x"):
        (spool.folder / f"{name}.frame").write_bytes(data)
    for entry in spool.frames():
        assert entry.id == bytes(range(8))
        assert entry.data == data


def _truths(data: bytes) -> None:
    truths = Truths()
    truths.put(data, NOW)
    for definition in QUERIES.values():
        truths.shares(definition, decoder.decode(corpus.values_by_topic()["estimates"][0]).span)


def _tail(data: bytes) -> None:
    overview = Overview()
    overview.add_record(data)
    overview.add_alert(data)
    overview.add_status(data)
    for name in overview.names:
        overview.pulse(name, NOW)


def _tokens(path: Path) -> None:
    Tokens.read(path)


def _caller(text: str) -> None:
    accounts = {"app": Account("app", hashes=(bytes(32),)), "site": Account("site", keys=(bytes(32),))}
    Tokens(accounts).caller(text, NOW)


def _submission(kind: str) -> Callable[[bytes], object]:
    definitions = ServedDefinitions.of(QUERIES)
    return lambda data: submission.read(data, kind, definitions, 1000 * START + 3000, MIB)


def _inflated(data: bytes) -> None:
    for codec, compress in ((1, cramjam.gzip), (2, cramjam.snappy), (3, cramjam.lz4), (4, cramjam.zstd)):
        payload = bytearray(bytes(compress.compress(data)))
        if payload:
            # One changed bit in a compressed body, since random bytes never begin as one.
            payload[len(data) % len(payload)] ^= 1 << len(data) % 8
        for body in (data, bytes(payload)):
            try:
                bounded_batches.inflate(codec, body)
            except bounded_batches.CorruptRecordException:
                continue


def _keys_of_records() -> list[bytes]:
    # The records are made at the first call, so that the memory of a read does not contain their making.
    corpus.values_by_topic()
    return corpus.record_keys()


def _column_lists(data: bytes) -> None:
    column_lists([decoder.decode(data)])


def _positions(path: Path) -> None:
    list(replay.Positions(path, HOMEPAGE))
    list(replay.Positions(path, PROFILE))


BEARERS = [f"Bearer {short_lived('site', bytes(32), 1 << 33)}", "Bearer abc", "Basic x"]
CSV = ["site,n\nnews.example,1\nwiki.example,2\n,\nx\n", 'age,sex\n3,f\n7,m\n"9",m\n']
COUNTS = ["value,count\nnews.example,3\nwiki.example,0.5\n", '"value","count"\n"a,b",7\n']
LAWS = ["zipf:1.1", "0.7*zipf:1.1+0.3*uniform", "beta:2,5", "geometric:0.3", "uniform", "file:nowhere"]
PLAIN = {"oracle": "grr", "epsilon": 1.0, "pane": "1s", "answers": "once"}
JSON = (ReportError, ValueError)

READERS = (
    Reader(
        "oracles.frame.frame:decode",
        lambda: [*corpus.reports(), *corpus.vectors()],
        _bytes(frame.decode),
        (FrameError,),
    ),
    Reader("oracles.frame.frame:header", corpus.vectors, _bytes(frame.header)),
    Reader(
        "oracles.frame.frame:frames", corpus.submissions, _bytes(lambda data: [bytes(f) for f in frame.frames(data)])
    ),
    Reader("aggregator.counting.partition:SourcePartition.take", corpus.reports, _bytes(_source), memory=8 * MIB),
    Reader("hubbub.kafka.patches.bounded_batches:inflate", corpus.submissions, _bytes(_inflated), memory=130 * MIB),
    Reader(
        "aggregator.tallies.progress:decode",
        corpus.progress,
        _bytes(progress.decode),
        (ReportError,),
        through=("aggregator.tallies.progress:decode_ends",),
    ),
    Reader("aggregator.tallies.clock_record:decode", corpus.clock_records, _bytes(clock_record.decode), (ReportError,)),
    Reader(
        "aggregator.tallies.snapshot:decode_snapshot",
        corpus.snapshots,
        _bytes(lambda data: snapshot.decode_snapshot(data, CELLS)),
        (ReportError,),
    ),
    Reader(
        "aggregator.tallies.tally:decode_tally",
        corpus.tallies,
        _bytes(lambda data: tally.decode_tally(data, CELLS)),
        (ReportError,),
    ),
    Reader("aggregator.tallies.id_log:decode_ids", corpus.segments, _bytes(id_log.decode_ids), (ReportError,)),
    Reader(
        "aggregator.counting.changelog:sort_records",
        lambda: [*corpus.tallies(), *corpus.segments(), *corpus.progress()],
        _bytes(_changelog),
    ),
    Reader("aggregator.tallies.keys:decode", lambda: corpus.KEYS, _bytes(keys.decode)),
    Reader(
        "aggregator.merging.snapshot_records:decode_state",
        corpus.states,
        _bytes(lambda data: snapshot_records.decode_state(data, VERSIONS[HOMEPAGE.digest])),
        (ReportError,),
    ),
    Reader(
        "aggregator.merging.marks:decode",
        corpus.marks,
        _bytes(lambda data: marks.decode(data, VERSIONS[HOMEPAGE.digest])),
        (ReportError,),
    ),
    Reader(
        "aggregator.merging.snapshot_partition:SnapshotPartition.load",
        lambda: [
            *corpus.snapshots(),
            *corpus.tallies(),
            *corpus.progress(),
            *corpus.states(),
            *corpus.blocks(),
            *corpus.KEYS,
        ],
        _bytes(_snapshots),
        memory=8 * MIB,
        steps=200_000,
        through=(
            "aggregator.merging.snapshot_partition:SnapshotPartition.load_in_slices",
            "aggregator.merging.snapshot_records:read_block",
            "aggregator.merging.snapshot_records:read_snapshot",
            "aggregator.merging.snapshot_records:read_state",
            "aggregator.merging.snapshot_records:read_watermarks",
        ),
    ),
    Reader(
        "aggregator.merging.block_records:decode",
        corpus.blocks,
        _bytes(lambda data: block_records.decode(data, HOMEPAGE)),
        (ReportError,),
    ),
    Reader(
        "aggregator.merging.name_history:decode", corpus.name_histories, _bytes(name_history.decode), (ReportError,)
    ),
    Reader(
        "aggregator.records.maps_record:decode_maps",
        corpus.maps,
        _bytes(lambda data: maps_record.decode_maps(data, 12)),
        (ReportError,),
    ),
    Reader(
        "aggregator.records.name_rows:read_discover",
        corpus.discoveries,
        _bytes(lambda data: name_rows.read_discover(orjson.loads(data), [0.95], 1)),
        (ReportError, ValueError),
    ),
    Reader("aggregator.publishing.alerts.state:load", corpus.alert_states, _bytes(state.load), (ReportError,)),
    Reader(
        "aggregator.reading.audit.ranges:read_final",
        _keys_of_records,
        _bytes(lambda key: read_final(key, corpus.values_by_topic()["estimates"][0])),
        through=("aggregator.records.decoder:decode",),
    ),
    Reader(
        "aggregator.records.decoder:decode",
        lambda: corpus.values_by_topic()["estimates"],
        _bytes(decoder.decode),
        JSON,
        through=("hubbub.http.schema:read",),
    ),
    Reader(
        "aggregator.records.flat_rows:column_lists",
        lambda: corpus.values_by_topic()["estimates"],
        _bytes(_column_lists),
        JSON,
        through=("aggregator.reading.export.reader:read",),
    ),
    Reader(
        "aggregator.records.alert:decode",
        lambda: corpus.values_by_topic()["alerts"],
        _bytes(message.decode),
        JSON,
    ),
    Reader(
        "aggregator.records.status:decode",
        lambda: corpus.values_by_topic()["status"],
        _bytes(query_status.decode),
        JSON,
    ),
    Reader("hubbub.true_counts:decode", lambda: corpus.values_by_topic()["truth"], _bytes(true_counts.decode), JSON),
    Reader("aggregator.publishing.accuracy:Truths.put", lambda: corpus.values_by_topic()["truth"], _bytes(_truths)),
    *(
        Reader(
            f"aggregator.board.store.store:Store.{take.__name__}",
            lambda topic=topic: corpus.values_by_topic()[topic],
            _bytes(_store(take)),
            JSON,
            memory=8 * MIB,
            steps=200_000,
        )
        for topic, take in (
            ("estimates", Store.take_record),
            ("alerts", Store.take_alert),
            ("truth", Store.take_truth),
            ("status", Store.take_status),
        )
    ),
    Reader(
        "aggregator.reading.tail.overview:Overview.take",
        lambda: [*corpus.values_by_topic()["estimates"], *corpus.values_by_topic()["alerts"]],
        _bytes(_tail),
    ),
    Reader(
        "hubbub.definitions.definition_log:read",
        lambda: [*chain.from_iterable(corpus.definition_writes())],
        _bytes(_definitions),
        memory=32 * MIB,
        steps=200_000,
        through=(
            "oracles.query.file:parse",
            "hubbub.definitions.formats:read",
            "hubbub.definitions.definition_record:read",
            "hubbub.definitions.stop_record:read",
        ),
    ),
    Reader("aggregator.sink.file_names:parse", lambda: [FILE_PATH], _text(file_names.parse)),
    Reader("aggregator.sink.sink_state:SinkState.decode", lambda: [SINK], _bytes(SinkState.decode), (TargetRefused,)),
    Reader("aggregator.board.server.viewers:ViewerFile.read", lambda: [VIEWERS], _file(ViewerFile.read), (QueryError,)),
    Reader(
        "hubbub.definitions.formats:read",
        lambda: [formats.newest_value(), b'{"version":4,"release":"0.4.0","more":[1]}'],
        _bytes(formats.read),
        (ValueError,),
    ),
    Reader(
        "oracles.query.file:load",
        lambda: [corpus.QUERY_FILE, corpus.STRINGS, corpus.RECORDER],
        _file(query.load, values=corpus.VALUES),
        (QueryError,),
        memory=64 * MIB,
        steps=200_000,
        through=(
            "oracles.query.file:load_file",
            "oracles.query.text:read_toml",
            "oracles.query.settings:read_windows",
            "oracles.query.settings:read_methods",
            "oracles.query.settings:read_threshold",
            "oracles.query.domain_reader:read_domain",
            "oracles.query.settings:read_quantiles",
            "oracles.query.settings:read_limits",
            "oracles.query.groups:read_comparisons",
            "oracles.query.groups:read_groups",
            "oracles.query.groups:read_weights",
            "oracles.query.recorder:read_recorder",
            "oracles.query.draft:Draft.read",
            "oracles.query.draft:Key.read",
            "oracles.query.keys:read_keys",
            "oracles.query.answers:read_answer",
            "oracles.query.answers:read_attributes",
            "oracles.query.selection:read_budget",
            "oracles.query.selection:read_oracle",
            "oracles.query.answers:read_pairs",
            "oracles.query.selection:read_points",
            "oracles.query.answers:read_ranges",
            "oracles.query.answers:read_sets",
            "oracles.query.answers:read_solution",
            "oracles.query.strings:read_discovery",
            "oracles.query.strings:read_known",
            "oracles.query.strings:read_search",
            "producers.gateway.intake.active_definitions:ServedDefinitions.read",
        ),
    ),
    Reader(
        "oracles.query.text:read_text",
        lambda: [corpus.VALUES],
        _file(
            lambda path: query.parse(
                {"queries": {"q": make_table(domain={"file": path.name}, oracle="grr", answers="once")}},
                "test",
                path.parent,
            ),
        ),
        (QueryError,),
    ),
    Reader(
        "producers.simulation.crowd.scenario:read_scenario",
        corpus.scenarios,
        _file(lambda path: scenario.read_scenario(path, HOMEPAGE)),
        (QueryError,),
        through=("producers.simulation.crowd.scenario:parse_scenario",),
    ),
    Reader(
        "producers.simulation.crowd.distribution:read_crowd",
        lambda: LAWS,
        _text(lambda text: distribution.read_crowd([text], HOMEPAGE)),
        (ParameterError,),
        through=("producers.simulation.crowd.distribution:read_law",),
    ),
    Reader(
        "producers.simulation.crowd.distribution:read_law",
        lambda: COUNTS,
        _file(lambda path: distribution.read_law(f"file:{path}", HOMEPAGE.domains[0])),
        (ParameterError,),
    ),
    Reader(
        "producers.simulation.crowd.crowd_groups:read_groups",
        lambda: ["ios=0.5,web=0.3", "ios=1"],
        _text(lambda text: crowd_groups.read_groups(text, ["uniform"], [], PLATFORMS)),
        (ParameterError,),
    ),
    Reader(
        "aggregator.board.store.notes:parse",
        lambda: ["2026-11-27T08:00:00Z new homepage", "2026-11-27 a holiday"],
        _text(notes.parse),
        (ParameterError,),
    ),
    Reader(
        "producers.simulation.crowd.words:read_words",
        lambda: ["oom\nsegfault\n", "oom\t3\n\t1e3\nsegfault\t0.5\n"],
        _file(lambda path: words.read_words([f"words:{path}"], CRASHES)),
        (ParameterError,),
    ),
    Reader("producers.simulation.replay:Positions", lambda: CSV, _file(_positions), (ParameterError,)),
    Reader(
        "producers.client.key_item:KeyItem.decode",
        lambda: [
            KeyItem(bytes(32)).encode(),
            KeyItem(bytes(32), Fraction(1, 3), 7, {bytes(8): (3, Fraction(2))}).encode(),
        ],
        _bytes(KeyItem.decode),
        (StoreError,),
    ),
    Reader("producers.client.ledger:Ledger", lambda: [corpus.store()[0]], _file(_ledger), (StoreError,)),
    Reader(
        "producers.client.device_key:DeviceKey.read",
        lambda: [corpus.store()[1]],
        lambda data, folder: (
            (folder / "store").write_bytes(corpus.store()[0]),
            (folder / "store.key").write_bytes(data),
            Ledger(folder / "store"),
        ),
        (StoreError,),
    ),
    Reader("producers.publishers.spool:Spool.frames", corpus.reports, _spool, (StoreError,)),
    Reader(
        "producers.publishers.pinned_query:pin_query",
        lambda: [corpus.listing()],
        _bytes(lambda data: [pin_query(data, name, 1.0, "test") for name in ("homepage", "profile")]),
        (QueryError, NotAllowed),
        memory=32 * MIB,
        steps=200_000,
    ),
    Reader(
        "producers.gateway.access.tokens:Tokens.read", lambda: [corpus.TOKENS], _file(_tokens), (QueryError, Problem)
    ),
    Reader("producers.gateway.access.tokens:Tokens.caller", lambda: BEARERS, _text(_caller), (Problem,)),
    Reader(
        "producers.gateway.intake.submission:inflate",
        corpus.gzip_bodies,
        _bytes(lambda data: submission.inflate(data, MIB)),
        (Problem,),
    ),
    *(
        Reader(
            "producers.gateway.intake.submission:read",
            corpus.submissions,
            _bytes(_submission(kind)),
            (Problem,),
        )
        for kind in (submission.FRAMES, submission.JSON)
    ),
    Reader(
        "hubbub.asked.list_folder:read_file",
        lambda: [make_list(ask()).file, make_list(ask()).served],
        _file(list_folder.read_file),
        (AskedError,),
        steps=100_000,
        through=("hubbub.asked.asked_list:read_list",),
    ),
    Reader(
        "hubbub.asked.signatures:read_private_key",
        lambda: [PEOPLE[0].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())],
        _file(signatures.read_private_key),
        (ParameterError,),
    ),
    Reader(
        "hubbub.asked.signatures:read_public_keys",
        lambda: [",".join(KEYS)],
        _text(lambda text: signatures.read_public_keys(tuple(text.split(",")))),
        (ParameterError,),
    ),
    Reader(
        "producers.simulation.crowd.note_crowd:read_notes",
        lambda: ["poisson:3", "poisson:0.01"],
        _text(lambda spec: note_crowd.read_notes(spec, SAVES)),
        (ParameterError,),
    ),
    Reader(
        "producers.publishers.known_state:KnownState.parse",
        lambda: [STATE],
        _bytes(lambda data: KnownState.parse(data, Moment(0.0, 0.0))),
        (ValueError,),
    ),
    Reader(
        "hubbub.secret:read",
        lambda: ["a secret\n", "one\r\n", "x" * 65_536],
        _file(lambda path: secret.read("X_FILE", str(path))),
        (ParameterError,),
    ),
    Reader(
        "hubbub.kafka.settings:parse_servers",
        lambda: ["a:1,b:2", "[::1]:9092"],
        _text(settings.parse_servers),
        (KafkaSettingError,),
    ),
    Reader(
        "hubbub.kafka.oauth:parse_token",
        lambda: [b"token\n1700000000\n", b"a.b.\r\n4102444800"],
        _bytes(lambda data: oauth.parse_token(data, 1.6e9)),
        (KafkaUnreachable,),
    ),
    Reader(
        "hubbub.kafka.settings:parse_prefix",
        lambda: ["hubbub.", "a-b_c"],
        _text(settings.parse_prefix),
        (KafkaSettingError,),
    ),
    Reader(
        "hubbub.kafka.settings:parse_instance",
        lambda: ["worker-0", "hubbub-worker-6d9f_x.1"],
        _text(settings.parse_instance),
        (KafkaSettingError,),
    ),
    *(
        Reader(
            f"hubbub.command.options:{read.__name__}",
            lambda: ["1e6", "0.05", "max", "1.5KiB", "64MiB", "30m", "8801"],
            _text(read),
            (argparse.ArgumentTypeError,),
        )
        for read in (options.share, options.rate, options.size, options.duration, options.port, options.frame_size)
    ),
)

NO_READERS = {
    "hubbub.definitions.formats_record:read": "moves the topic of definitions, which `catalog.read` reads",
    "aggregator.board.store.notes:read": "reads the lines of a bounded file by `parse`",
    "aggregator.sink.folder:Folder.read": "moves bytes of files, which `SinkState.decode` and `row_file.decode` read",
    "aggregator.sink.object_store:ObjectStore.read": "moves the bytes of an object, as `Folder.read` does",
    "aggregator.sink.writer:Target.read": "moves the bytes of a file, as `Folder.read` does",
    "aggregator.sink.target_reader:read_rows": "reads files by `row_file.decode`",
    "aggregator.sink.row_file:decode": "reads a Parquet file of the operator by polars; test_sink damages one",
    "hubbub.kafka.settings:Kafka.read": "reads options and the environment with parse_servers, parse_prefix and secret",
    "hubbub.kafka.patches.answer_reader:FetchStream.read": "hands out slices of an answer, which aiokafka decodes",
    "hubbub.definitions.follower:Follower.read": "moves the topic of definitions, which `catalog.read` reads",
    "aggregator.counting.recovery:Recovery.read": "moves the changelog, which `sort_records` reads",
    "aggregator.reading.audit.fold:Fold.read": "counts frames by the Gate that `SourcePartition.take` has",
    "aggregator.publishing.finals.estimator_process:read": "moves bytes of a pipe between two processes of a worker",
    "producers.files:read_file": "moves the bytes of a file, which `KeyItem.decode` and `Spool.frames` read",
    "producers.client.file_key_store:FileKeyStore.read": "moves the bytes of a file, which `KeyItem.decode` reads",
    "producers.client.key_item:KeyStore.read": "is of the application, and `KeyItem.decode` reads what it returns",
    "producers.client.device_limits:Limits.read": "reads arguments of the application, which is trusted",
    "producers.pins:read_pins": "reads arguments of the application, which is trusted",
    "hubbub.http.answer_pieces:AnswerPieces.decode": "decodes an answer of this process",
    "oracles.query.answers:read_quantiles": "reads a key of a query file, which `file.parse` reads",
    "hubbub.asked.list_folder:read_folder": "reads its files by `read_file`",
    "aggregator.publishing.finals.estimator_process:load": "imports modules",
    "aggregator.sink.target_reader:read_state": "moves the bytes of a file, which `SinkState.decode` reads",
    "producers.gateway.bodies:Bodies.read": "moves a bounded body to `submission`, which reads it",
    "producers.gateway.intake.active_definitions:ActiveDefinitions.read_lately": "waits",
}
"""Functions that are no readers but have the name of one, each with its reason."""
