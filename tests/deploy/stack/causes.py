"""The actions of the drills: the causes of failures, and their ends."""

import asyncio
import signal
from collections.abc import Callable

from aiokafka import TopicPartition

from hubbub.kafka.clients import consumer, partitions, started
from hubbub.kafka.settings import REPORTS, Kafka
from tests.deploy.stack.images import clock
from tests.deploy.stack.stack import Stack, until
from tests.deploy.stack.traffic import Spoiler

COMPOSE = "docker compose -f deploy/compose.yaml"
SECOND_GATEWAY = f"{COMPOSE} run --detach --use-aliases gateway gateway"
QUARTER, HOUR = 900.0, 3600.0


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


def set_clock(ahead: int) -> Callable[[Stack], object]:
    """Return an action that starts the broker again with its clock some seconds ahead."""

    def start(stack: Stack) -> None:
        project = stack.project
        for container in project.replicas("kafka"):
            project.remove(container)
        variables = {"LD_PRELOAD": str(clock()), "CLOCK_AHEAD": str(ahead)}
        project.extra_environment["kafka"] = variables if ahead else {}
        stack.must(f"{COMPOSE} up --detach kafka")

    return start


def jump_clock(ahead: int) -> Callable[[Stack], object]:
    """Return an action that lets one broker run ahead for a while. Its partitions stay ahead afterwards.

    If it is the only broker, all partitions are ahead, and the clock of this machine looks wrong.
    """

    def jump(stack: Stack) -> None:
        set_clock(ahead)(stack)
        wrong = f"hubbub_clock_offset_seconds < -{ahead / 2:.0f} or hubbub_clock_ahead_seconds > {ahead / 2:.0f}"
        until(lambda: stack.query(wrong), "the ticks of a worker have the time of the broker", QUARTER)
        set_clock(0)(stack)

    return jump


def set_quota(reports: int) -> Callable[[Stack], object]:
    def write(stack: Stack) -> None:
        file = stack.folder / "deploy" / "secrets" / "gateway-tokens.toml"
        lines = [f"quota = {reports}" if line.startswith("quota") else line for line in file.read_text().splitlines()]
        file.chmod(0o644)
        file.write_text("\n".join(lines) + "\n")

    return write


def spoil(stack: Stack) -> None:
    stack.spoiler = Spoiler(4.0)


def end_spoiler(stack: Stack) -> None:
    stack.spoiler.stop()


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
