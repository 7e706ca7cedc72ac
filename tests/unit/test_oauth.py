"""Tokens for the login at Kafka, from a file and from a command."""

import asyncio
import logging
import sys
import time

import pytest

from hubbub.kafka import oauth
from hubbub.kafka.errors import KafkaSettingError, KafkaUnreachable
from hubbub.kafka.oauth import Token, TokenCommand, parse_token, token_provider
from hubbub.kafka.settings import Kafka, split_command
from tests.unit.test_secret import read

LOGIN = {"SECURITY_PROTOCOL": "SASL_SSL", "SASL_MECHANISM": "OAUTHBEARER"}


@pytest.fixture
def program(tmp_path):
    """A program that counts its runs, and prints a numbered token with a life in seconds, or fails."""
    path = tmp_path / "print-token"
    path.write_text(
        f"#!{sys.executable}\n"
        "import sys, time\n"
        "from pathlib import Path\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "runs = folder / 'runs'\n"
        "number = len(runs.read_text()) + 1 if runs.exists() else 1\n"
        "runs.write_text('x' * number)\n"
        "if (folder / 'broken').exists():\n"
        "    print('secret-output', file=sys.stderr)\n"
        "    sys.exit('secret-output')\n"
        "print(f'token-{number}')\n"
        "print(int(time.time() + float(sys.argv[1])))\n"
    )
    path.chmod(0o755)
    return path


def provider(command):
    return token_provider(read(**LOGIN, OAUTH_TOKEN_COMMAND=command))


def tokens(command, count):
    token = provider(command)
    return [asyncio.run(token.token()) for _ in range(count)]


def test_all_clients_of_a_process_share_the_token_of_a_command(program):
    assert tokens(f"{program} 3600", 3) == ["token-1"] * 3
    assert tokens(f"{program} 3600", 1) == ["token-1"]


def test_a_token_is_renewed_before_it_expires(program, monkeypatch):
    command = TokenCommand(f"{program} 1000")
    present_time = time.time()
    assert command.current() == "token-1"
    for moment, token in (700, "token-1"), (790, "token-1"), (810, "token-2"):
        monkeypatch.setattr(oauth.time, "time", lambda moment=moment: present_time + moment)
        assert command.current() == token


def test_a_failure_uses_the_present_token_until_it_expires(program, tmp_path, monkeypatch, caplog):
    command = TokenCommand(f"{program} 100")
    present_time = time.time()
    assert command.current() == "token-1"
    (tmp_path / "broken").touch()
    monkeypatch.setattr(oauth.time, "time", lambda: present_time + 90)
    with caplog.at_level(logging.WARNING):
        assert command.current() == "token-1"
    assert "exited with code 1" in caplog.text
    monkeypatch.setattr(oauth.time, "time", lambda: present_time + 101)
    with pytest.raises(KafkaUnreachable, match="print-token exited with code 1; run the command by hand") as failure:
        command.current()
    (tmp_path / "broken").unlink()
    assert "secret-output" not in caplog.text + str(failure.value)


def test_several_threads_run_the_command_once(program):
    async def run():
        token = provider(f"{program} 600")
        return await asyncio.gather(*[token.token() for _ in range(20)])

    assert {*asyncio.run(run())} == {"token-1"}


def test_no_shell_runs_the_command(program, tmp_path):
    with pytest.raises(KafkaUnreachable, match="exited with code 1"):
        asyncio.run(provider(f"{program} '1; touch {tmp_path}/escaped'").token())
    assert not (tmp_path / "escaped").exists()
    assert split_command("sh -c 'aws token | head -1' x") == ["sh", "-c", "aws token | head -1", "x"]


def test_a_command_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(oauth, "PATIENCE", 0.2)
    with pytest.raises(KafkaUnreachable, match="sleep took longer than 0 s"):
        asyncio.run(provider("sleep 60").token())


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"hidden\n",
        b"\n1\n",
        b"hidden\nsoon\n",
        b"is hidden\n9\n",
        b"hidden\n9\nmore\n",
        b"\xff\n9\n",
        b"hidden\n-9",
    ],
)
def test_other_output_is_refused_without_showing_it(output):
    with pytest.raises(KafkaUnreachable, match="must print the token on its first line and its expiry") as failure:
        parse_token(output, 0.0)
    assert "hidden" not in str(failure.value)


def test_a_token_has_its_expiry_in_seconds_of_the_future():
    assert parse_token(b"token\n1700000000\n", 1.6e9) == ("token", 1_700_000_000)
    assert parse_token(b"token\r\n1700000000\r\n", 1.6e9).text == "token"
    with pytest.raises(KafkaUnreachable, match="not in milliseconds"):
        parse_token(b"token\n1700000000000\n", 1.6e9)
    with pytest.raises(KafkaUnreachable, match="has expired; look at the clock"):
        parse_token(b"token\n1700000000\n", 1.8e9)


def test_no_text_of_a_token_is_printed(program):
    assert "secret" not in repr(Token("secret", 9))
    assert "secret" not in repr(Kafka(protocol="SASL_SSL", mechanism="OAUTHBEARER", token_command=f"{program} secret"))


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"OAUTH_TOKEN_COMMAND": "'"}, "HUBBUB_KAFKA_OAUTH_TOKEN_COMMAND: the quotes of the command are not closed"),
        ({"OAUTH_TOKEN_COMMAND": " "}, "HUBBUB_KAFKA_OAUTH_TOKEN_COMMAND must name a program"),
        ({"OAUTH_TOKEN_COMMAND": "no-such-program --x"}, "there is no program no-such-program"),
        ({}, "needs HUBBUB_KAFKA_OAUTH_TOKEN_FILE or HUBBUB_KAFKA_OAUTH_TOKEN_COMMAND too"),
        ({"OAUTH_TOKEN_COMMAND": "true", "USERNAME": "me"}, "USERNAME has no effect"),
    ],
)
def test_a_wrong_command_is_an_error_at_start(settings, fault):
    with pytest.raises(KafkaSettingError, match=fault):
        read(**LOGIN, **settings)


def test_a_command_and_a_file_together_are_refused(tmp_path):
    (tmp_path / "token").write_text("token")
    command = {"OAUTH_TOKEN_COMMAND": "true"}
    with pytest.raises(KafkaSettingError, match=r"TOKEN_FILE and .*TOKEN_COMMAND are both set: keep one of them"):
        read(**LOGIN, **command, OAUTH_TOKEN_FILE=str(tmp_path / "token"))
    with pytest.raises(KafkaSettingError, match="TOKEN_COMMAND has no effect with this login"):
        read(**command)
