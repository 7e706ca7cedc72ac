"""The brokers of the other tests. They start, carry large frames, and stop with the tests."""

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

import hubbub.command.options
from aggregator.demo import broker as embedded_broker
from aggregator.demo.broker import EmbeddedBroker
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.errors import KafkaUnreachable
from hubbub.kafka.settings import Kafka
from tests.brokers import PASSWORD, ROOT, USER, Cluster
from tests.slowness import patience

MIB = 1 << 20


async def create(where, topic, replication=1, **settings):
    async with started(AIOKafkaAdminClient(**client_arguments(where)), where) as admin:
        await admin.create_topics([NewTopic(topic, 1, replication, topic_configs=settings)])


async def send(where, topic, values, timestamp=None):
    producer = AIOKafkaProducer(**client_arguments(where), max_request_size=4 * MIB, acks="all")
    async with started(producer, where):
        return [await producer.send_and_wait(topic, value, timestamp_ms=timestamp) for value in values]


async def receive(where, topic, count):
    consumer = AIOKafkaConsumer(**client_arguments(where), max_partition_fetch_bytes=4 * MIB)
    async with started(consumer, where):
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        async with asyncio.timeout(patience(20)):
            return [await consumer.getone() for _ in range(count)]


def test_a_broker_carries_a_frame_of_a_mebibyte(broker):
    async def run():
        target = broker.kafka()
        topic = f"large-{uuid.uuid4().hex}"
        await create(target, topic, **{"max.message.bytes": str(2 * MIB)})
        frame = os.urandom(MIB)
        await send(target, topic, [frame])
        [record] = await receive(target, topic, 1)
        assert record.value == frame

    asyncio.run(run())


def test_kafka_sets_the_time_of_the_log_and_tansu_does_not(broker):
    async def run():
        target = broker.kafka()
        topic = f"time-{uuid.uuid4().hex}"
        await create(target, topic, **{"message.timestamp.type": "LogAppendTime"})
        await send(target, topic, [b"forged"], timestamp=1_000_000_000_000)
        [record] = await receive(target, topic, 1)
        return record.timestamp

    at = asyncio.run(run())
    if broker.embedded:
        assert at == 1_000_000_000_000, "Tansu now knows LogAppendTime: let it move the clock"
    else:
        assert abs(at / 1000 - time.time()) < 30


def test_a_login_works_and_its_password_is_never_shown(kafka, monkeypatch):
    login = {"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SASL_MECHANISM": "SCRAM-SHA-512", "USERNAME": USER}
    for name, value in {**login, "PASSWORD": PASSWORD}.items():
        monkeypatch.setenv(f"HUBBUB_KAFKA_{name}", value)
    parser = argparse.ArgumentParser()
    hubbub.command.options.add_kafka(parser)
    where = Kafka.read(parser.parse_args(["--kafka", kafka.scram]))
    assert PASSWORD not in repr(where)

    async def run():
        topic = f"login-{uuid.uuid4().hex}"
        await create(where, topic)
        await send(where, topic, [b"hello"])
        return [record.value for record in await receive(where, topic, 1)]

    assert asyncio.run(run()) == [b"hello"]


def test_the_error_names_a_wrong_password(kafka, caplog):
    wrong_kafka = Kafka(kafka.scram, "hubbub.", False, "SASL_PLAINTEXT", "SCRAM-SHA-512", USER, "wrong-secret")
    with pytest.raises(KafkaUnreachable, match=r"(?i)authentication") as refused:
        asyncio.run(create(wrong_kafka, "never"))
    assert "wrong-secret" not in str(refused.value) + caplog.text


def test_kafka_starts_again_if_another_process_takes_its_port(kafka):
    cluster = Cluster()
    with socket.create_server(("127.0.0.1", cluster.nodes[0].controller)) as listener, cluster:
        assert cluster.nodes[0].controller != listener.getsockname()[1]
        target = cluster.kafka()
        topic = "taken"
        asyncio.run(create(target, topic))


def test_the_embedded_broker_starts_and_stops_in_async_code():
    async def run():
        async with EmbeddedBroker() as broker:
            await create(broker.kafka(), "here")
        with pytest.raises(KafkaUnreachable):
            await create(broker.kafka(), "gone")

    asyncio.run(run())


PROGRAM = """
import sys, time
from tests.brokers import Cluster, Tansu
with (Tansu() if sys.argv[1] == "tansu" else Cluster()) as broker:
    keeper = broker._keeper if broker.embedded else broker.nodes[0].keeper
    print(broker.bootstrap, keeper.folder, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["tansu", pytest.param("kafka", marks=pytest.mark.long)])
def test_no_broker_and_no_folder_remains_after_a_killed_process(kind, request):
    request.getfixturevalue(kind)  # skips where there is none
    command = [sys.executable, "-c", PROGRAM, kind]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        bootstrap, folder = parent.stdout.readline().split()
        assert embedded_broker.answers(bootstrap, 1, lambda: True)
        parent.kill()
    deadline = time.monotonic() + patience(20)
    while Path(folder).exists() or embedded_broker.answers(bootstrap, 0.1, lambda: True):
        assert time.monotonic() < deadline, "the broker outlived its parent"
        time.sleep(0.05)


@pytest.mark.long
def test_three_brokers_allow_the_loss_and_the_freeze_of_one(cluster):
    patient = {"enable_idempotence": True, "request_timeout_ms": 5000, "metadata_max_age_ms": 5000}

    async def run():
        target = cluster.kafka()
        topic = f"three-{uuid.uuid4().hex}"
        await create(target, topic, 3, **{"min.insync.replicas": "2"})
        async with started(AIOKafkaProducer(**client_arguments(target), **patient), target) as producer:
            await producer.send_and_wait(topic, b"all")
            cluster.kill(0)
            await producer.send_and_wait(topic, b"one killed")
            await asyncio.to_thread(cluster.restart, 0)
            cluster.freeze(1)
            await producer.send_and_wait(topic, b"one frozen")
            cluster.resume(1)
        return [record.value for record in await receive(target, topic, 3)]

    assert asyncio.run(run()) == [b"all", b"one killed", b"one frozen"]
