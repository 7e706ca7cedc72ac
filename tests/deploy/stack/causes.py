"""The actions of the drills: the causes of failures, and their ends."""

import asyncio
import signal
from collections.abc import Callable

from aiokafka import TopicPartition

from hubbub.kafka.clients import consumer, partitions, started
from hubbub.kafka.settings import ESTIMATES, QUERIES, REPORTS, Kafka
from oracles.query import load
from tests.deploy.stack import certificates
from tests.deploy.stack.images import clock
from tests.deploy.stack.stack import Stack, until
from tests.deploy.stack.trouble import Killer, RecordSender, flood, frames, rubbish, write
from tests.upgrade.releases import released

COMPOSE = "docker compose -f deploy/compose.yaml"
SECOND_GATEWAY = f"{COMPOSE} run --detach --use-aliases gateway gateway"
QUARTER, HOUR = 900.0, 3600.0
MANY = """
[queries.many{number}]
domain = 4
epsilon = 1.0
pane = "10s"
windows = ["10s"]
lateness = "5s"
"""
UNREADABLE = b"query|drill|1"
"""The key of a definition that a drill writes."""


def compose(*words: str) -> Callable[[Stack], object]:
    """Return an action that runs `docker compose`."""
    return lambda stack: stack.must(f"{COMPOSE} {' '.join(words)}")


def stop_brokers(stack: Stack) -> None:
    stack.must(f"{COMPOSE} stop {' '.join(stack.brokers)}")


def repair_brokers(stack: Stack) -> None:
    """Start the brokers, and wait until they answer."""
    stack.must(f"{COMPOSE} up --detach {' '.join(stack.brokers)}")
    for name in stack.brokers:
        until(lambda name=name: stack.project.first(name).health == "healthy", f"{name} answers", QUARTER)


def stop_one(container: str) -> Callable[[Stack], object]:
    return lambda stack: stack.project.containers[container].stop()


def stop_gateways(stack: Stack) -> None:
    for container in stack.project.of("gateway"):
        container.stop()


def send(number: signal.Signals) -> Callable[[Stack], object]:
    def act(stack: Stack) -> None:
        for name in stack.brokers:
            stack.project.first(name).signal(number)

    return act


def remove_one_offs(service: str) -> Callable[[Stack], object]:
    def stop(stack: Stack) -> None:
        for container in stack.project.one_offs(service):
            stack.project.remove(container)

    return stop


def set_clock(service: str, ahead: int) -> Callable[[Stack], object]:
    """Return an action that starts a service again with its clock some seconds ahead."""

    def start(stack: Stack) -> None:
        project = stack.project
        for container in project.replicas(service):
            project.remove(container)
        variables = {"LD_PRELOAD": str(clock()), "CLOCK_AHEAD": str(ahead)}
        project.extra_environment[service] = variables if ahead else {}
        stack.must(f"{COMPOSE} up --detach {service}")

    return start


def jump_clock(ahead: int) -> Callable[[Stack], object]:
    """Return an action that lets one broker run ahead for a while. Its partitions stay ahead afterwards.

    If it is the only broker, all partitions are ahead, and the clock of this machine looks wrong.
    """

    def jump(stack: Stack) -> None:
        set_clock("kafka", ahead)(stack)
        wrong = f"hubbub_clock_offset_seconds < -{ahead / 2:.0f} or hubbub_clock_ahead_seconds > {ahead / 2:.0f}"
        until(lambda: stack.query(wrong), "the ticks of a worker have the time of the broker", QUARTER)
        set_clock("kafka", 0)(stack)

    return jump


def set_quota(reports: int) -> Callable[[Stack], object]:
    def write(stack: Stack) -> None:
        file = stack.folder / "deploy" / "secrets" / "gateway-tokens.toml"
        lines = [f"quota = {reports}" if line.startswith("quota") else line for line in file.read_text().splitlines()]
        file.chmod(0o644)
        file.write_text("\n".join(lines) + "\n")

    return write


def spoil(stack: Stack) -> None:
    """Send as many frames without a header as all others send frames."""
    stack.trouble = RecordSender(REPORTS, rubbish(), 4.0)


def send_late(stack: Stack) -> None:
    """Send frames of panes that closed long ago."""
    stack.trouble = RecordSender(REPORTS, frames(defined(stack), age=lambda: HOUR), 4.0)


def end_trouble(stack: Stack) -> None:
    stack.trouble.stop()


def defined(stack: Stack) -> list:
    """Return the queries of the project's file."""
    return [*load(stack.query_file).values()]


def kill_workers(stack: Stack) -> None:
    """Kill each life of each worker after 9 s."""
    stack.trouble = Killer(stack.project.replicas("worker"))


def kill_workers_of_many_queries(stack: Stack) -> None:
    """Let 200 queries have reports, and then kill each life of each worker."""
    text = "".join(line for line in stack.query_file.open() if not line.startswith("revision"))
    more = "".join(MANY.format(number=number) for number in range(200))
    stack.query_file.write_text(f"revision = 2\n{text}\n{more}")
    stack.must(f"{COMPOSE} restart worker gateway")
    stack.flood = flood(defined(stack), 200)
    finals = 'count(hubbub_newest_final_age_seconds{query=~"many.*", job="hubbub-worker"} > 0) >= 200'
    until(lambda: stack.query(finals), "200 queries have finals", QUARTER)
    kill_workers(stack)


def end_many_queries(stack: Stack) -> None:
    end_trouble(stack)
    stack.flood.stop()


def age_file(stack: Stack) -> None:
    """Let the workers read a file of a higher revision, and then the former one again."""
    former_text = stack.query_file.read_text()
    renew_file(stack)
    stack.must(f"{COMPOSE} restart worker")
    workers = stack.project.replicas("worker")
    until(lambda: all(worker.health == "healthy" for worker in workers), "the workers have the new file", QUARTER)
    stack.query_file.write_text(former_text)
    stack.must(f"{COMPOSE} restart worker")


def renew_file(stack: Stack) -> None:
    """Give the file a higher revision, and its query another setting."""
    text = stack.query_file.read_text()
    if "revision" not in text:
        text = text.replace("edition = 2", "edition = 2\nrevision = 1").replace('lateness = "5s"', 'lateness = "6s"')
    stack.query_file.write_text(text)


def spoil_definitions(stack: Stack) -> None:
    """Write a definition that nobody can read."""
    write(QUERIES, (UNREADABLE, b"no definition"))


def delete_unreadable(stack: Stack) -> None:
    write(QUERIES, (UNREADABLE, None))


def without_typing(line: str) -> list[str]:
    """Leave out the producer, into which the reader of HubbubDefinitionsUnread types the key. The relief does it."""
    return [] if "console-producer" in line else [line]


def spoil_estimates(stack: Stack) -> None:
    write(ESTIMATES, (b"homepage|tumbling|10|10|0", b"no record"))


def limit_records(stack: Stack) -> None:
    """Let Kafka refuse every final."""
    configure = f"{COMPOSE} exec kafka /opt/kafka/bin/kafka-configs.sh --bootstrap-server kafka:9092 --alter"
    stack.must(f"{configure} --topic hubbub.estimates --add-config max.message.bytes=1000")


def use_short_certificate(stack: Stack) -> None:
    """Give one of the gateways TLS with a certificate that ends in twelve hours."""
    certificates.write(stack.secrets, 0.5)
    certificates.mount(stack.project.definition)
    for container in stack.project.replicas("gateway"):
        stack.project.remove(container)
    stack.must(f"{COMPOSE} up --detach gateway")


def renew_certificate(stack: Stack) -> None:
    certificates.write(stack.secrets, 90)


def start_stray(stack: Stack) -> None:
    """Start a worker of release 0.2.0, which exits with 4. Release 0.1.0 does not know the file's edition."""
    stack.project.extra_environment["worker"] = {"PYTHONPATH": str(released("0.2.0"))}
    stack.must(f"{COMPOSE} run --detach worker worker")
    stack.project.extra_environment["worker"] = {}
    [stray] = stack.project.one_offs("worker")
    until(lambda: stray.state == "exited", "the stray worker exits", QUARTER)
    text = "\n".join(line for _, line in stray.lines)
    if "exited with code 4" not in text:
        raise OSError(f"the stray worker says: {text}")


def lose_records(stack: Stack) -> None:
    """Stop the workers until Kafka has deleted reports that they have not read."""
    stack.must(f"{COMPOSE} stop worker")
    ends = asyncio.run(report_offsets("end_offsets"))
    configure = f"{COMPOSE} exec kafka /opt/kafka/bin/kafka-configs.sh --bootstrap-server kafka:9092 --alter"
    stack.must(f"{configure} --topic hubbub.reports --add-config retention.ms=1000,segment.ms=1000")

    def has_deleted() -> bool:
        firsts = asyncio.run(report_offsets("beginning_offsets"))
        return any(first > ends[partition] for partition, first in firsts.items())

    until(has_deleted, "Kafka deletes reports", 2 * QUARTER)  # it looks every five minutes
    stack.must(f"{configure} --topic hubbub.reports --delete-config segment.ms")
    stack.must(f"{configure} --topic hubbub.reports --add-config retention.ms=604800000")
    stack.must(f"{COMPOSE} up --detach worker")


async def report_offsets(kind: str) -> dict[TopicPartition, int]:
    """Return the offsets of all partitions of the reports: `beginning_offsets` or `end_offsets`."""
    kafka = Kafka("kafka:9092")
    count = (await partitions(kafka, REPORTS))[REPORTS]
    async with started(consumer(kafka), kafka) as reader:
        return await getattr(reader, kind)([TopicPartition(kafka.topic(REPORTS), n) for n in range(count)])


def loop(stack: Stack) -> None:
    """Kill a worker again and again. Prometheus must see each of its lives."""
    worker = stack.project.containers["hubbub-worker-1"]
    for _ in range(4):
        lives = worker.restarts
        worker.signal(signal.SIGKILL)
        until(lambda lives=lives: worker.restarts > lives and worker.health == "healthy", "the worker is up again", 120)
        begin = f'process_start_time_seconds{{job="hubbub-worker",instance="{worker.address}:8801"}}'
        until(lambda begin=begin: started_since(stack, begin, worker.since - 5), "Prometheus sees the new worker", 60)


def started_since(stack: Stack, expression: str, time: float) -> bool:
    return any(float(series["value"][1]) > time for series in stack.query(expression))


def for_gateway(line: str) -> list[str]:
    """Return a line of HubbubProcessDown with `gateway` for `worker`, as the page says."""
    return [line.replace(" worker", " gateway")]
