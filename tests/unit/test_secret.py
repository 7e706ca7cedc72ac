"""Secrets of the environment, and the login at Kafka that is made of them."""

import argparse

import pytest
import trustme

from hubbub.command.options import add_kafka
from hubbub.kafka.clients import client_arguments
from hubbub.kafka.errors import KafkaSettingError
from hubbub.kafka.settings import Kafka
from hubbub.secret import secret
from oracles.errors import ParameterError

WORD = "open sesame"


def file(folder, content):
    path = folder / "secret"
    path.write_bytes(content)
    return str(path)


def test_a_secret_comes_from_its_variable_or_from_a_file(tmp_path):
    assert secret("WORD", {"WORD": WORD}) == WORD
    for content in (WORD.encode(), b"open sesame\n", b"open sesame\r\n"):
        assert secret("WORD", {"WORD_FILE": file(tmp_path, content)}) == WORD
    assert secret("WORD", {}) is None
    assert secret("WORD", {"WORD": "", "WORD_FILE": ""}) is None


@pytest.mark.parametrize("content", [b"", b"\n", b"one\ntwo", b"\xff\xfe", b"a" * 70_000, b"tab\tbed"])
def test_a_file_that_holds_no_secret_is_refused_without_showing_it(tmp_path, content):
    with pytest.raises(ParameterError, match=r"WORD_FILE: .*secret (must contain exactly|is not text)") as refused:
        secret("WORD", {"WORD_FILE": file(tmp_path, content)})
    assert "two" not in str(refused.value)


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(ParameterError, match="WORD_FILE: /nowhere/secret cannot be read: No such file"):
        secret("WORD", {"WORD_FILE": "/nowhere/secret"})


def test_both_forms_are_an_error(tmp_path):
    with pytest.raises(ParameterError, match="WORD and WORD_FILE are both set") as refused:
        secret("WORD", {"WORD": WORD, "WORD_FILE": file(tmp_path, WORD.encode())})
    assert refused.value.exit_code == 2
    assert "sesame" not in str(refused.value)


def read(**environment):
    parser = argparse.ArgumentParser()
    add_kafka(parser)
    return Kafka.read(parser.parse_args([]), {f"HUBBUB_KAFKA_{name}": value for name, value in environment.items()})


def test_a_password_comes_from_its_file(tmp_path):
    login = {"SECURITY_PROTOCOL": "SASL_SSL", "SASL_MECHANISM": "SCRAM-SHA-512", "USERNAME": "me"}
    login["PASSWORD_FILE"] = file(tmp_path, WORD.encode() + b"\n")
    assert client_arguments(read(**login))["sasl_plain_password"] == WORD
    with pytest.raises(ParameterError, match="both set"):
        read(**login, PASSWORD=WORD)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"SECURITY_PROTOCOL": "SASL_SSL", "SASL_MECHANISM": "OAUTHBEARER"}, "needs HUBBUB_KAFKA_OAUTH_TOKEN_FILE"),
        ({"SECURITY_PROTOCOL": "SASL_SSL", "SASL_MECHANISM": "OAUTHBEARER", "USERNAME": "me"}, "OAUTH_TOKEN_FILE"),
        ({"SECURITY_PROTOCOL": "SSL", "KEY_FILE": "key.pem"}, "set HUBBUB_KAFKA_CERT_FILE too"),
        ({"CERT_FILE": "cert.pem"}, "HUBBUB_KAFKA_CERT_FILE has no effect"),
        ({"USERNAME": "me"}, "HUBBUB_KAFKA_USERNAME has no effect"),
    ],
)
def test_an_incomplete_login_is_refused(settings, fault):
    with pytest.raises(KafkaSettingError, match=fault):
        read(**settings)


def test_a_token_and_a_password_together_are_refused(tmp_path):
    token = file(tmp_path, b"token")
    with pytest.raises(
        KafkaSettingError,
        match="USERNAME has no effect with this login; remove it, because OAUTHBEARER does not use it",
    ):
        read(SECURITY_PROTOCOL="SASL_SSL", SASL_MECHANISM="OAUTHBEARER", USERNAME="me", OAUTH_TOKEN_FILE=token)
    with pytest.raises(
        KafkaSettingError,
        match="OAUTH_TOKEN_FILE has no effect with this login; remove it, because PLAIN does not use it",
    ):
        read(SECURITY_PROTOCOL="SASL_SSL", SASL_MECHANISM="PLAIN", USERNAME="me", PASSWORD=WORD, OAUTH_TOKEN_FILE=token)


def test_an_unusable_certificate_is_an_error_without_a_prompt(tmp_path):
    certificate = trustme.CA().issue_cert("client.example")
    cert = tmp_path / "cert.pem"
    key = tmp_path / "key.pem"
    certificate.cert_chain_pems[0].write_to_path(cert)
    certificate.private_key_pem.write_to_path(key)
    assert Kafka(protocol="SSL", cert_file=str(cert), key_file=str(key)).ssl_context()
    other = tmp_path / "other.pem"
    trustme.CA().issue_cert("client.example").private_key_pem.write_to_path(other)
    for wrong_value in (other, tmp_path / "missing.pem", cert):
        with pytest.raises(
            KafkaSettingError, match=r"HUBBUB_KAFKA_CERT_FILE, HUBBUB_KAFKA_KEY_FILE: .* cannot be used"
        ):
            Kafka(protocol="SSL", cert_file=str(cert), key_file=str(wrong_value)).ssl_context()
