"""The address of Kafka and the login, as settings and without a broker."""

import asyncio
import subprocess
import sys

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from aggregator.demo import broker as embedded_broker
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.errors import KafkaSettingError, KafkaUnreachable
from hubbub.kafka.settings import Kafka
from tests.brokers import ROOT


def test_an_unreachable_broker_is_an_error_with_the_reason():
    kafka = Kafka(f"127.0.0.1:{embedded_broker.free_port()}")

    async def connect():
        async with started(AIOKafkaAdminClient(**client_arguments(kafka)), kafka):
            pass

    with pytest.raises(KafkaUnreachable, match=r"Connect call failed"):
        asyncio.run(connect())


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"servers": "nowhere"}, "HOST:PORT"),
        ({"prefix": "a/b"}, "prefix"),
        ({"protocol": "TLS"}, "SASL_SSL"),
        ({"protocol": "SASL_SSL", "username": "me"}, "HUBBUB_KAFKA_PASSWORD"),
        ({"password": "secret-word"}, "has no effect"),
        ({"ca_file": "ca.pem"}, "has no effect"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, fault):
    with pytest.raises(KafkaSettingError, match=fault) as refused:
        Kafka(**settings)
    assert "secret-word" not in str(refused.value)


def test_a_client_imports_kafka_only_when_it_connects():
    heavy = ("aiokafka", "asyncio", "ssl", "logging", "argparse")
    code = f"import sys, hubbub.kafka.settings; hubbub.kafka.Kafka(); print([m for m in {heavy} if m in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"
