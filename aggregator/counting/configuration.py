"""The configuration of the Faust app: the settings that the guarantees and the speed rest on."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import faust
from faust.auth import OAuthCredentials

from aggregator.counting import quirks, reception
from aggregator.topics.sizes import LARGEST
from hubbub.kafka import OAUTH, Kafka
from hubbub.names import REPORTS, WORKER

COMMIT = 0.2
SESSION, SESSION_EMBEDDED = 6.0, 2.0
"""Seconds without a heartbeat until others take over; the embedded broker makes a first join wait for half of it."""
FETCH = 4 << 20


class App(faust.App):
    """The attributes that the transport in `quirks` asks of an app."""

    embedded: bool
    resume_offsets: Callable[[], Mapping[Any, int]]


def build_app(kafka: Kafka, partitions: int, max_frame: int, folder: Path) -> App:
    quirks.install(kafka.topic(REPORTS), checked=not kafka.embedded)
    reception.install()
    session = SESSION_EMBEDDED if kafka.embedded else SESSION
    app = App(
        kafka.topic(WORKER),
        broker=quirks.brokers(kafka),
        broker_credentials=credentials(kafka),
        datadir=str(folder),
        store="memory://",
        autodiscover=False,
        web_enabled=False,
        topic_partitions=partitions,
        topic_allow_declare=False,
        topic_disable_leader=True,
        processing_guarantee="at_least_once",
        ConsumerScheduler=quirks.Coalesce,
        broker_session_timeout=session,
        broker_heartbeat_interval=session / 5,
        broker_rebalance_timeout=5.0,
        broker_request_timeout=10.0,
        broker_commit_interval=COMMIT,
        broker_commit_every=None,
        producer_request_timeout=10.0,
        producer_max_request_size=LARGEST,
        consumer_max_fetch_size=max(FETCH, 2 * max_frame),
        consumer_metadata_max_age_ms=5000,
        producer_metadata_max_age_ms=5000,
        consumer_auto_offset_reset="earliest",
        stream_wait_empty=False,
        stream_buffer_maxsize=8,  # of runs, not of records
        table_standby_replicas=0,
        recovery_consistency_check=False,  # of stores on disk; ours is read by `Recovery`
    )
    app.embedded = kafka.embedded
    return app


def credentials(kafka: Kafka) -> Any:
    if kafka.mechanism == OAUTH:
        return OAuthCredentials(oauth_cb=kafka.token_provider(), ssl_context=kafka.ssl_context())
    if kafka.sasl:
        return faust.SASLCredentials(
            username=kafka.username, password=kafka.password, mechanism=kafka.mechanism, ssl_context=kafka.ssl_context()
        )
    return faust.SSLCredentials(kafka.ssl_context()) if kafka.tls else None
