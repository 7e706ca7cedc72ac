"""The Faust app with the settings that guarantees and speed need."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import faust
from faust.auth import OAuthCredentials
from faust.tables.manager import TableManager

from aggregator.counting import faust_patches
from aggregator.counting.faust_assignor import Assignor
from hubbub.definitions.formats import release
from hubbub.kafka.group import CLIENT
from hubbub.kafka.oauth import token_provider
from hubbub.kafka.patches import answer_reader, group_member
from hubbub.kafka.settings import LARGEST, OAUTH, REPORTS, WORKER, Kafka

COMMIT = 0.2
"""Seconds between two commits of offsets."""
HEARTBEAT = 1.2
"""The most seconds between two heartbeats. Their answers tell a worker of rebalances, and that its name is taken."""
FETCH = 4 << 20
"""The most bytes of a fetch, unless frames may be larger."""


class Tables(TableManager):
    """The tables of the app, without Faust's pause of a second at the start, which a restart would add to its finals.

    Faust waits for tables that are declared late. Here the only one is declared before the start.
    """

    async def on_start(self) -> None:
        if not self.should_stop:
            await self._update_channels()
            await self.recovery.start()


class App(faust.App):
    """The Faust app, with the attributes that the transport of faust_patches.py needs."""

    is_idempotent: bool
    """Whether the broker takes records of idempotent producers."""
    resume_offsets: Callable[[], Mapping[Any, int]]
    """Return the offset to read from, by partition."""

    def _create_directories(self) -> None:
        """Create no folders, because nothing is on disk."""


@dataclass(frozen=True)
class Instance:
    """The name of a worker in its group, under which a process gets the partitions of the one before at once."""

    name: str
    leaves: bool
    """Whether a worker that stops in order gives the name up, so that others take its partitions at once."""
    on_fence: Callable[[], None]
    """A function that is called in another thread if another process has taken the name."""


def build_app(
    kafka: Kafka,
    partitions: int,
    max_frame: int,
    instance: Instance | None = None,
    on_refusal: Callable[[], None] = lambda: None,
) -> App:
    """Return the app. `on_refusal` is called in another thread if the brokers refuse classic groups."""
    faust_patches.install(kafka.topic(REPORTS), has_log_time=kafka.dialect.log_has_time)
    answer_reader.install()
    group_member.install_classic(on_refusal)
    if not kafka.dialect.allows_leaving:
        group_member.install_staying()
    elif instance is not None:
        group_member.install_static(instance.on_fence, leaves=instance.leaves)
    session = kafka.dialect.session_seconds

    app = App(
        kafka.topic(WORKER),
        broker=faust_patches.brokers(kafka),
        broker_credentials=credentials(kafka),
        broker_client_id=f"{CLIENT}{release()}",
        store="memory://",
        autodiscover=False,
        web_enabled=False,
        topic_partitions=partitions,
        topic_allow_declare=False,
        topic_disable_leader=True,
        # With exactly_once Faust skips recoveries: 18 of 26 on Kafka, with sums 7.1% too low.
        processing_guarantee="at_least_once",
        ConsumerScheduler=faust_patches.RunScheduler,
        TableManager=Tables,
        PartitionAssignor=Assignor,
        broker_session_timeout=session,
        broker_heartbeat_interval=min(HEARTBEAT, session / 5),
        broker_rebalance_timeout=5.0,
        broker_request_timeout=max(10.0, session),
        broker_commit_interval=COMMIT,
        broker_commit_every=None,
        # Faust's 20 minutes would let a frozen leader block a checkpoint as long.
        producer_request_timeout=10.0,
        producer_max_request_size=LARGEST,
        consumer_max_fetch_size=max(FETCH, 2 * max_frame),
        # With the default of 5 minutes a partition stayed unread for 75 s after its leader had moved.
        consumer_metadata_max_age_ms=5000,
        producer_metadata_max_age_ms=5000,
        consumer_auto_offset_reset="earliest",
        consumer_group_instance_id=instance and instance.name,
        # `noack` needs it. No event is acknowledged before a checkpoint, and Faust would wait for that.
        stream_wait_empty=False,
        stream_buffer_maxsize=8,  # counts runs, not records
        # Standby replicas raised a ValueError once in 21 kills, and `Recovery` needs none.
        table_standby_replicas=0,
        recovery_consistency_check=False,  # for stores on disk; `Recovery` reads our changelog
    )

    app.is_idempotent = kafka.dialect.is_idempotent
    return app


def credentials(kafka: Kafka) -> Any:
    if kafka.mechanism == OAUTH:
        return OAuthCredentials(oauth_cb=token_provider(kafka), ssl_context=kafka.ssl_context())
    if kafka.sasl:
        return faust.SASLCredentials(
            username=kafka.username, password=kafka.password, mechanism=kafka.mechanism, ssl_context=kafka.ssl_context()
        )
    return faust.SSLCredentials(kafka.ssl_context()) if kafka.tls else None
