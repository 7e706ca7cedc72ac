"""The group by Faust. It maps what counting needs to the app, its consumer, its agent and its table."""

from collections.abc import Callable, Mapping
from typing import Any

from faust.types import TP

from aggregator.counting import faust_patches
from aggregator.counting.faust_app import App, Instance, build_app
from aggregator.counting.group import GroupMember
from hubbub.kafka.settings import CHANGELOG, REPORTS, TALLIES, Kafka


class FaustGroup:
    """The group, with a table without values. It makes Faust assign the changelog and call `recover`.

    The sender of Faust needs 110 microseconds or more for each record, so the outbox writes the
    changelog. It also writes the deletions: with two producers a deletion could overtake a write.
    """

    def __init__(self, app: App, kafka: Kafka, partitions: int) -> None:
        self._app = app
        self._topic = kafka.topic(REPORTS)
        self._changelog = kafka.topic(CHANGELOG)
        self._partitions = partitions
        self._table: Any = app.Table(TALLIES, partitions=partitions, key_type=bytes, value_type=bytes)
        if self._table._changelog_topic_name() != self._changelog:  # noqa: SLF001 - topics and recovery use the name
            raise RuntimeError("Faust uses another name for its changelog: check the version of Faust")

    def join(self, member: GroupMember) -> None:
        app = self._app
        reports = app.topic(self._topic, key_serializer="raw", value_serializer="raw", partitions=self._partitions)

        async def note(*_: Any, **__: Any) -> None:
            member.note_assignment()

        async def count(stream: Any) -> None:
            await member.count(stream.noack().events())

        def resume_offsets() -> Mapping[Any, int]:
            return {TP(self._topic, partition): offset for partition, offset in member.resume_offsets().items()}

        self._table.on_recover(member.recover)
        app.on_partitions_assigned.connect(note)
        app.resume_offsets = resume_offsets
        app.agent(reports, name="count")(count)

    @property
    def generation(self) -> int:
        generation: int = self._app.consumer_generation_id
        return generation

    @property
    def rebalancing(self) -> bool:
        return bool(self._app.rebalancing)

    def assigned_partitions(self) -> set[int]:
        return {tp.partition for tp in self._app.assignor.assigned_actives() if tp.topic == self._topic}

    def highwater(self, partition: int) -> int | None:
        try:
            end: int | None = self._app.consumer.highwater(TP(self._topic, partition))
        except AssertionError:  # aiokafka raises it if a rebalance has just revoked the partition
            return None
        return end

    def newest_time(self) -> int:
        return faust_patches.newest(self._topic)

    async def seek(self, partition: int, offset: int) -> None:
        await self._app.consumer.seek_wait({TP(self._topic, partition): offset})

    def note_written(self, partition: int, offset: int) -> None:
        self._table.data.set_persisted_offset(TP(self._changelog, partition), offset)

    async def run(self) -> None:
        await self._app.start()
        await self._app.wait_until_stopped()

    async def wait_for_crash(self) -> BaseException:
        await self._app._crashed.wait()  # noqa: SLF001 - mode offers no other way to wait
        return self._app.crash_reason or RuntimeError("Faust has crashed")

    async def stop(self) -> None:
        await self._app.stop()


def build_group(
    kafka: Kafka, partitions: int, max_frame: int, instance: Instance | None, on_refusal: Callable[[], None]
) -> FaustGroup:
    """Return the group of a worker. `on_refusal` is called in another thread if the brokers refuse classic groups."""
    app = build_app(kafka, partitions, max_frame, instance, on_refusal)
    return FaustGroup(app, kafka, partitions)
