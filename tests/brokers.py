"""Real brokers for tests. Tansu comes from its wheel, and Apache Kafka from Maven's jars, run by Java."""

import asyncio
import base64
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Self

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from aggregator.demo.broker import EmbeddedBroker, answers, free_port
from aggregator.demo.keeper import Keeper
from aggregator.errors import EmbeddedError
from aggregator.topics.command import ensure
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.errors import KafkaUnreachable
from hubbub.kafka.settings import Kafka
from tests.slowness import patience

ROOT = Path(__file__).parent.parent
POM = ROOT / "deploy" / "kafka" / "pom.xml"
VERSION = os.environ.get("KAFKA_VERSION", "")
"""The version of Apache Kafka. If it is empty, the pom's."""
TOOLS = {"4.4.0": "4.3.1"}
"""Kafka's commands come from another version if Maven has none of the broker's."""
JAVA = (
    "java",
    "-Xmx512m",
    "-XX:+ExitOnOutOfMemoryError",
    # A broker of a test lives for seconds, so the time of its start counts more than its speed.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xlog:cds*=off",
    "-Djava.io.tmpdir=.",
)
CLASSES = "classes.jsa"
USER, PASSWORD = "tester", "tester-secret"
START = 120.0
ATTEMPTS, PORT_IN_USE = 5, "Address already in use"

PROPERTIES = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},SCRAM://127.0.0.1:{scram},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SCRAM://127.0.0.1:{scram}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SCRAM:SASL_PLAINTEXT
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.scram.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
log.dirs=data
auto.create.topics.enable=false
default.replication.factor={replication}
min.insync.replicas={insync}
offsets.topic.replication.factor={replication}
offsets.topic.num.partitions=4
transaction.state.log.replication.factor={replication}
transaction.state.log.num.partitions=4
transaction.state.log.min.isr={insync}
share.coordinator.state.topic.replication.factor={replication}
share.coordinator.state.topic.min.isr={insync}
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.retention.check.interval.ms=1000
log.cleaner.backoff.ms=500
log.cleaner.dedupe.buffer.size=4194304
"""


def free_ports(count):
    """Return so many free ports. A port is free until its listener starts, so without a look one may come twice."""
    ports = []
    while len(ports) < count:
        port = free_port()
        if port not in ports:
            ports.append(port)
    return ports


class Unavailable(Exception):
    """An error about a program that a broker needs and this machine lacks."""


def jars() -> Path:
    """Return the folder of Kafka's jars. A lock lets one process copy them, once for each version of the pom."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise Unavailable(f"no Apache Kafka: {program} is not installed (Java 17 and Maven are needed)")
    cache = ROOT / "build"
    cache.mkdir(exist_ok=True)
    pom = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    libs = cache / f"kafka-{VERSION}-{pom}" if VERSION else cache / f"kafka-{pom}"
    with (cache / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not libs.exists():
            copy_jars(libs)
        if not (libs / CLASSES).exists():
            archive_classes(libs)
    return libs


def copy_jars(libs: Path) -> None:
    # A copy that was broken off must not look like a whole one, so the folder gets its name at the end.
    half = libs.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={half}"]
    if VERSION:
        command += [f"-Dkafka.version={VERSION}", f"-Dkafka.tools.version={TOOLS.get(VERSION, VERSION)}"]
    try:
        subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=patience(240))
    except subprocess.SubprocessError as error:
        output = (error.stdout or b"").decode(errors="replace")[-500:]
        raise Unavailable(f"no Apache Kafka: Maven could not copy its jars: {output}") from error
    half.rename(libs)


def archive_classes(libs: Path) -> None:
    """Let Java write an archive of its classes at an orderly end. A broker then starts in half the time."""
    archive = libs / "half"
    with Cluster(1, libs, (f"-XX:ArchiveClassesAtExit={archive}",)) as cluster:
        cluster.nodes[0].keeper.stop(seconds=START)
    archive.touch()  # a Java that cannot write one does without
    archive.rename(libs / CLASSES)


class Node:
    """One Kafka broker, its ports and its process."""

    def __init__(self) -> None:
        self.choose_ports()
        self.keeper = Keeper("kafka")
        self.log = self.keeper.folder / "kafka.log"

    def choose_ports(self) -> None:
        self.port, self.scram, self.controller = free_ports(3)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self.keeper.running

    def java(self, libs: Path, *arguments: str) -> subprocess.Popen:
        archive = libs / CLASSES
        option = (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()
        return self.keeper.run((*JAVA, *option, "-cp", f"{libs}/*", *arguments), self.log)

    def format(self, libs: Path, cluster: str) -> subprocess.Popen:
        user = f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"
        tool = ("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", "server.properties")
        return self.java(libs, *tool, "--add-scram", user)

    def start(self, libs: Path, flags: Sequence[str] = ()) -> None:
        self.java(libs, *flags, "kafka.Kafka", "server.properties")

    def log_end(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


class Cluster:
    """An Apache Kafka of one broker, or of three that replicate. The first broker has the number 0."""

    embedded = False

    def __init__(self, brokers: int = 1, libs: Path | None = None, flags: Sequence[str] = ()) -> None:
        self.libs = libs or jars()
        self.flags = flags
        self.nodes = [Node() for _ in range(brokers)]

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)

    @property
    def scram(self) -> str:
        """The addresses that require a login (SASL_PLAINTEXT, SCRAM-SHA-512)."""
        return ",".join(f"127.0.0.1:{node.scram}" for node in self.nodes)

    def kafka(self, prefix: str = "hubbub.") -> Kafka:
        return Kafka(self.bootstrap, prefix)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.configure()
        for node, formatting in [(node, node.format(self.libs, cluster)) for node in self.nodes]:
            if formatting.wait(patience(START)):
                raise RuntimeError(f"Kafka's storage was not formatted: {node.log_end()}")
        for more in reversed(range(ATTEMPTS)):
            for node in self.nodes:
                node.start(self.libs, self.flags)
            try:
                self.wait()
                break
            except RuntimeError as error:
                if PORT_IN_USE not in str(error) or not more:
                    raise
            # Java needs seconds between our choice and its bind, and another process was quicker.
            for node in self.nodes:
                node.keeper.stop(signal.SIGKILL)
            self.choose_ports()
            self.configure()

    def choose_ports(self) -> None:
        ports = iter(free_ports(3 * len(self.nodes)))
        for node in self.nodes:
            node.port, node.scram, node.controller = next(ports), next(ports), next(ports)

    def configure(self) -> None:
        voters = ",".join(f"{n}@127.0.0.1:{node.controller}" for n, node in enumerate(self.nodes, 1))
        for n, node in enumerate(self.nodes, 1):
            (node.keeper.folder / "server.properties").write_text(self.properties(n, node, voters))

    def __exit__(self, *_: object) -> None:
        # By force: an orderly end of a broker takes seconds, and nobody reads this data again.
        for node in self.nodes:
            node.keeper.close()

    def properties(self, number: int, node: Node, voters: str) -> str:
        return PROPERTIES.format(
            node=number,
            voters=voters,
            port=node.port,
            scram=node.scram,
            controller=node.controller,
            replication=len(self.nodes),
            insync=min(2, len(self.nodes)),
        )

    def kill(self, i: int) -> None:
        self.nodes[i].keeper.stop(signal.SIGKILL)

    def freeze(self, i: int) -> None:
        self.nodes[i].keeper.send(signal.SIGSTOP)

    def resume(self, i: int) -> None:
        self.nodes[i].keeper.send(signal.SIGCONT)

    def restart(self, i: int) -> None:
        """Stop a broker in order if it runs, then start it."""
        self.nodes[i].keeper.stop()
        self.nodes[i].start(self.libs, self.flags)
        self.wait()

    def heal(self) -> None:
        """Start the brokers that a test stopped, and wait until every replica is in sync."""
        for node in self.nodes:
            if node.running:
                node.keeper.send(signal.SIGCONT)
            else:
                node.start(self.libs, self.flags)
        self.wait()

    def wait(self) -> None:
        """Wait until every broker answers, knows all others, and sees every replica in sync."""
        deadline = time.monotonic() + patience(START)
        for node in self.nodes:
            # `node` is bound now, because a closure would see the node of the last turn.
            if not answers(node.bootstrap, deadline - time.monotonic(), lambda node=node: node.running):
                raise RuntimeError(f"Kafka did not start: {node.log_end()}")
        for node in self.nodes:
            while not asyncio.run(is_complete(node.bootstrap, len(self.nodes))):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the brokers {self.bootstrap} do not find one another")
                time.sleep(0.1)


async def is_complete(bootstrap: str, brokers: int) -> bool:
    """Whether a broker knows all brokers, and all replicas are in sync."""
    target = Kafka(bootstrap)
    try:
        async with started(AIOKafkaAdminClient(**client_arguments(target), request_timeout_ms=5000), target) as admin:
            topics = await admin.describe_topics()
            count = len((await admin.describe_cluster())["brokers"])
    except (KafkaUnreachable, KafkaError):
        return False
    partitions = [*chain.from_iterable(topic["partitions"] for topic in topics)]
    return count == brokers and all(len(part["isr"]) == len(part["replicas"]) for part in partitions)


class Tansu(EmbeddedBroker):
    """The embedded broker, alone and in memory. If a test kills it, its records are lost."""

    embedded = True


def skip(reason: Exception) -> None:
    """Skip a test that this machine cannot run. In CI every test must run, so fail there."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(str(reason))
    pytest.skip(str(reason))


def tansu():
    try:
        broker = Tansu().start()
    except EmbeddedError as error:
        skip(error)
    with broker:
        yield broker


def kafka(brokers: int):
    try:
        cluster = Cluster(brokers)
    except Unavailable as error:
        skip(error)
    with cluster:
        yield cluster


def create_topics(broker, partitions: int = 4, **settings) -> Kafka:
    """Create all topics under a new prefix, and return their settings of Kafka."""
    # Tests of one session share a broker, so each has topics of its own.
    kafka = broker.kafka(f"t{uuid.uuid4().hex}.")
    asyncio.run(ensure(kafka, partitions, **settings))
    return kafka


@contextmanager
def frozen(broker):
    """Stop the broker for a while. All connections stay open."""
    keeper = broker._keeper if broker.embedded else broker.nodes[0].keeper
    keeper.send(signal.SIGSTOP)
    try:
        yield
    finally:
        keeper.send(signal.SIGCONT)


if __name__ == "__main__":  # before the tests, so that their time is theirs
    try:
        jars()
    except Unavailable as reason:
        sys.exit(str(reason))
