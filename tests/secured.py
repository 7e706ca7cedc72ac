"""An Apache Kafka that requires a login. It has TLS with SCRAM, client certificates or tokens, and access lists."""

import base64
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import trustme
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest

from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.settings import Kafka
from tests.brokers import PASSWORD, USER, Cluster, Node, free_ports

LISTENERS = (
    "PLAINTEXT://127.0.0.1:{port},SCRAM://127.0.0.1:{scram},MUTUAL://127.0.0.1:{mutual},TOKEN://127.0.0.1:{token}"
)
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PROPERTIES = f"""
listeners={LISTENERS},CONTROLLER://127.0.0.1:{{controller}}
advertised.listeners={LISTENERS}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SCRAM:SASL_SSL,MUTUAL:SSL,TOKEN:SASL_SSL
listener.name.token.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.token.oauthbearer.sasl.jaas.config={OAUTH} required unsecuredLoginStringClaim_sub="broker";
listener.name.token.oauthbearer.connections.max.reauth.ms=6000
listener.name.mutual.ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^.*CN=([^,]+).*$/$1/,DEFAULT
ssl.keystore.type=PEM
ssl.keystore.location=keystore.pem
ssl.truststore.type=PEM
ssl.truststore.location=ca.pem
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=false
"""
PRINTING = """\
import base64, json, time
now = int(time.time())
claims = {{"sub": {name!r}, "iat": now - 1, "exp": now + {seconds}}}
for part in {{"alg": "none"}}, claims:
    print(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("="), end=".")
print()
print(now + {seconds})
open({runs!r}, "a").write("x")
"""
"""A program like those that print the tokens of a cloud."""
TOPIC, GROUP, CLUSTER = 2, 3, 4
"""The numbers of Kafka for kinds of resources."""
OPERATIONS = {"Read": 3, "Write": 4, "Create": 5, "Alter": 7, "Describe": 8, "DescribeConfigs": 10, "AlterConfigs": 11}
KINDS = {"topic": TOPIC, "group": GROUP, "cluster": CLUSTER}
LITERAL, PREFIX = 3, 4
ANY, ALLOW = 1, 3


class Secured(Cluster):
    """A broker with logins. Its plain port is for the tests and has all rights."""

    def __init__(self) -> None:
        super().__init__(1)
        self.authority = trustme.CA()
        self.choose_ports()
        folder = self.folder
        self.ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca)
        pem(self.authority.issue_cert("127.0.0.1"), folder / "keystore.pem")

    def choose_ports(self) -> None:
        [node] = self.nodes
        node.port, node.scram, node.controller, self.mutual, self.token = free_ports(5)

    @property
    def folder(self) -> Path:
        return self.nodes[0].keeper.folder

    def properties(self, number: int, node: Node, voters: str) -> str:
        defaults = super().properties(number, node, voters)
        ports = {"port": node.port, "scram": node.scram, "controller": node.controller}
        additions = PROPERTIES.format(**ports, mutual=self.mutual, token=self.token)
        names = {line.split("=")[0] for line in additions.splitlines()}
        return "\n".join(line for line in defaults.splitlines() if line.split("=")[0] not in names) + additions

    def certificate(self, name: str) -> Path:
        """Write the certificate and key of a client to one file, and return its path."""
        path = self.folder / f"{name}.pem"
        pem(self.authority.issue_cert(f"{name}.example", common_name=name), path)
        return path

    def jwt(self, name: str, seconds: float = 3600.0) -> Path:
        """Write a token that this broker accepts, and return its path. The broker checks no signature."""
        path = self.folder / f"{name}.token"
        present_time = time.time()
        parts = ({"alg": "none"}, {"sub": name, "iat": present_time - 1, "exp": present_time + seconds})
        path.write_text(".".join([encode_part(part) for part in parts]) + ".\n")
        return path

    def token_command(self, name: str, seconds: int) -> str:
        """Write a program that prints a new token of this life, and notes each run. Return its command line."""
        path = self.folder / f"{name}-{seconds}.py"
        path.write_text(PRINTING.format(name=name, seconds=seconds, runs=str(path.with_suffix(".runs"))))
        return f"{sys.executable} {path}"

    def login(self, method: str, name: str = USER, prefix: str = "hubbub.") -> dict[str, str]:
        """Return the environment of a client that logs in."""
        tls = {"CA_FILE": str(self.ca), "SECURITY_PROTOCOL": "SASL_SSL"}
        if method == "scram":
            address: object = self.scram
            password = self.folder / f"{name}.password"
            password.write_text(f"{PASSWORD}\n")
            tls |= {"SASL_MECHANISM": "SCRAM-SHA-512", "USERNAME": name, "PASSWORD_FILE": str(password)}
        elif method == "mutual":
            address = f"127.0.0.1:{self.mutual}"
            tls |= {"SECURITY_PROTOCOL": "SSL", "CERT_FILE": str(self.certificate(name))}
        elif method == "command":
            address = f"127.0.0.1:{self.token}"
            tls |= {"SASL_MECHANISM": "OAUTHBEARER", "OAUTH_TOKEN_COMMAND": self.token_command(name, 3600)}
        else:
            address = f"127.0.0.1:{self.token}"
            tls |= {"SASL_MECHANISM": "OAUTHBEARER", "OAUTH_TOKEN_FILE": str(self.jwt(name))}
        login = {f"HUBBUB_KAFKA_{key}": value for key, value in tls.items()}
        return {"HUBBUB_KAFKA": str(address), "HUBBUB_PREFIX": prefix, **login}

    async def allow(self, name: str, *rights: tuple[str, str, str]) -> None:
        """Grant rights as (operation, kind, name). A name that ends with * is a prefix."""
        await self._lists([CreateAclsRequest(*entry(name, *privilege)) for privilege in rights])

    async def forbid(self, name: str, *rights: tuple[str, str, str]) -> None:
        await self._lists([DeleteAclsRequest(*entry(name, *privilege)) for privilege in rights])

    async def _lists(self, requests: list[Any]) -> None:
        kafka = Kafka(self.bootstrap)
        async with started(AIOKafkaAdminClient(**client_arguments(kafka)), kafka) as admin:
            for request in requests:
                answer = await admin._send_request(request)
                results = getattr(answer, "creation_responses", None) or answer.filter_responses
                assert all(result[0] == 0 for result in results), results


def entry(name: str, operation: str, kind: str, resource: str) -> tuple[Any, ...]:
    pattern = PREFIX if resource.endswith("*") and resource != "*" else LITERAL
    resource = resource.rstrip("*") if pattern == PREFIX else resource
    return (KINDS[kind], resource, pattern, f"User:{name}", "*", OPERATIONS[operation], ALLOW)


def encode_part(part: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def pem(certificate: trustme.LeafCert, path: Path) -> None:
    """Write key and certificates to one file. Java needs the key as PKCS#8."""
    command = ["openssl", "pkcs8", "-topk8", "-nocrypt"]
    key = subprocess.run(command, input=certificate.private_key_pem.bytes(), capture_output=True, check=True).stdout
    path.write_bytes(key + b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
