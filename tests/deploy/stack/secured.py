"""Three brokers with TLS, SCRAM and access lists in place of the broker of compose.yaml.

Each service of hubbub logs in as a user of its own, with the rights of docs/operating.md and no others. The plain port
of the brokers is for Kafka's own tools, as the runbooks call them.
"""

import asyncio
import secrets
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import trustme
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest

from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.rights import ALL, RIGHTS
from hubbub.kafka.settings import Kafka
from tests.secured import entry, pem

BROKERS = ("kafka", "kafka-2", "kafka-3")
PLAIN, LOGIN, VOTES = 9092, 9094, 9093
USERS = {
    "topics": ("topics",),
    "worker": ("worker",),
    "gateway": ("gateway",),
    "board": ("board", "topics", "rejects"),  # the runbooks call these in its container
    "sink": ("sink",),
    "simulator": ("simulate",),
}
"""The services of hubbub, which are users of Kafka, and the commands that each runs."""
JAAS = "KafkaServer { org.apache.kafka.common.security.scram.ScramLoginModule required; };\n"
CONFIGS = "/opt/kafka/bin/kafka-configs.sh --bootstrap-server kafka:9092"


def secure(folder: Path) -> Callable[[dict[str, Any]], None]:
    """Write certificates and passwords to a folder of secrets. Return a function that changes compose.yaml."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "kafka-ca")
    for name in BROKERS:
        pem(authority.issue_cert(name), folder / name)
    (folder / "kafka-login").write_text(JAAS)
    for name in USERS:
        (folder / password_of(name)).write_text(f"{secrets.token_hex(16)}\n")

    def change(definition: dict[str, Any]) -> None:
        services = definition["services"]
        names = ["kafka-ca", "kafka-login", *BROKERS, *map(password_of, USERS)]
        definition["secrets"] |= {name: {"file": f"./secrets/{name}"} for name in names}
        definition["volumes"] |= {name: {} for name in BROKERS}
        for number, name in enumerate(BROKERS, 1):
            services[name] = broker(services["kafka"], number, name)
        for name in USERS:
            service = services[name]
            service["environment"] = service["environment"] | login(name)
            service["secrets"] = [*service.get("secrets", []), "kafka-ca", password_of(name)]
        services["topics"]["depends_on"] = {name: {"condition": "service_healthy"} for name in BROKERS}

    return change


def password_of(name: str) -> str:
    return f"kafka-password-{name}"


def broker(settings: dict[str, Any], number: int, name: str) -> dict[str, Any]:
    """Return the service of a broker, made from the one of compose.yaml."""
    copies = {key: "3" for key in settings["environment"] if key.endswith("REPLICATION_FACTOR")}
    insync = {key: "2" for key in settings["environment"] if key.endswith("MIN_ISR")}
    environment = settings["environment"] | copies | insync | {
        "KAFKA_NODE_ID": str(number),
        "KAFKA_CONTROLLER_QUORUM_VOTERS": ",".join(f"{n}@{broker}:{VOTES}" for n, broker in enumerate(BROKERS, 1)),
        "KAFKA_LISTENERS": f"PLAINTEXT://:{PLAIN},LOGIN://:{LOGIN},CONTROLLER://:{VOTES}",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{name}:{PLAIN},LOGIN://{name}:{LOGIN}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGIN:SASL_SSL",
        "KAFKA_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-512",
        "KAFKA_SSL_KEYSTORE_TYPE": "PEM",
        "KAFKA_SSL_KEYSTORE_LOCATION": f"/run/secrets/{name}",
        "KAFKA_SSL_TRUSTSTORE_TYPE": "PEM",
        "KAFKA_SSL_TRUSTSTORE_LOCATION": "/run/secrets/kafka-ca",
        "KAFKA_AUTHORIZER_CLASS_NAME": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "KAFKA_SUPER_USERS": "User:ANONYMOUS",  # of the plain port
        "KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND": "false",
        "KAFKA_DEFAULT_REPLICATION_FACTOR": "3",
        "KAFKA_MIN_INSYNC_REPLICAS": "2",
        "KAFKA_HEAP_OPTS": "-Xms256m -Xmx256m -Djava.security.auth.login.config=/run/secrets/kafka-login",
    }  # fmt: skip
    test = [word.replace(f"kafka:{PLAIN}", f"{name}:{PLAIN}") for word in settings["healthcheck"]["test"]]
    return settings | {
        "environment": environment,
        "volumes": [f"{name}:/var/lib/kafka/data"],
        "secrets": ["kafka-ca", "kafka-login", name],
        "healthcheck": settings["healthcheck"] | {"test": test},
    }


def login(name: str) -> dict[str, str]:
    """Return the variables with which a service logs in."""
    return {
        "HUBBUB_KAFKA": ",".join(f"{broker}:{LOGIN}" for broker in BROKERS),
        "HUBBUB_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "HUBBUB_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
        "HUBBUB_KAFKA_USERNAME": name,
        "HUBBUB_KAFKA_PASSWORD_FILE": f"/run/secrets/{password_of(name)}",
        "HUBBUB_KAFKA_CA_FILE": "/run/secrets/kafka-ca",
    }


def add_users(run: Callable[[str], None], folder: Path, prefix: str = "hubbub.") -> None:
    """Create the users of the running brokers, and give them their rights. `run` runs a command in a broker."""
    for name in USERS:
        password = (folder / password_of(name)).read_text().strip()
        user = f"--entity-type users --entity-name {name}"
        run(f"{CONFIGS} --alter {user} --add-config 'SCRAM-SHA-512=[password={password}]'")
    asyncio.run(_allow(prefix))


async def _allow(prefix: str) -> None:
    kafka = Kafka(f"kafka:{PLAIN}", prefix)
    async with started(AIOKafkaAdminClient(**client_arguments(kafka)), kafka) as admin:
        for name, commands in USERS.items():
            for right in set(chain.from_iterable(RIGHTS[command] for command in commands)):
                resource = f"{prefix}*" if right.of == ALL else prefix + right.of
                answer = await admin._send_request(
                    CreateAclsRequest(*entry(name, right.operation, right.kind, resource))
                )
                if any(result[0] for result in answer.creation_responses):
                    raise OSError(f"Kafka does not take the right {right} of {name}: {answer}")
