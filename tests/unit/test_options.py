"""The options that commands share, and how commands end."""

import pytest
from aiokafka.errors import InvalidConfigurationError, KafkaConnectionError, KafkaTimeoutError

from hubbub import __main__ as command
from hubbub.command.options import run
from hubbub.kafka.errors import KafkaUnreachable, TopicMissing
from oracles.errors import EntropyError, ParameterError, QueryError


@pytest.mark.parametrize("name", ["worker", "board", "simulate"])
@pytest.mark.parametrize("port", ["70000", "-1", "http"])
def test_all_servers_have_the_same_error_about_a_port(name, port, capsys):
    with pytest.raises(SystemExit) as ending:
        command.main([name, "--port", port])
    assert ending.value.code == 2
    output = capsys.readouterr().err
    assert f"hubbub {name}: error: argument --port: must be a number from 0 to 65535, got '{port}'" in output


@pytest.mark.parametrize("name", ["worker", "board", "simulate"])
def test_a_port_of_the_environment_is_read_in_the_same_way(name, capsys, monkeypatch):
    monkeypatch.setenv("HUBBUB_PORT", "70000")
    with pytest.raises(SystemExit):
        command.main([name])
    assert "must be a number from 0 to 65535, got '70000'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ParameterError("no"), 2),
        (QueryError("no"), 2),
        (KafkaUnreachable("no"), 3),
        (TopicMissing("one", "two"), 4),
        (EntropyError("no"), 1),
        (ExceptionGroup("several", [ExceptionGroup("nested", [TopicMissing("one", "two")])]), 4),
    ],
)
def test_a_command_ends_with_the_code_of_its_error_and_a_line_for_each_reason(error, code, capsys):
    def fail():
        raise error

    assert run("board", fail) == code
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 + (code == 4)
    assert all(line.startswith("hubbub board: ") for line in lines)


def test_a_refusal_of_kafka_is_logged_without_a_traceback(capsys):
    def fail():
        raise InvalidConfigurationError("hubbub.reports")

    assert run("tail", fail) == 1
    assert capsys.readouterr().err.startswith("hubbub tail: Kafka refused: ")


@pytest.mark.parametrize(
    "error", [TimeoutError(), KafkaTimeoutError("40000 ms"), KafkaConnectionError("reset")], ids=repr
)
def test_a_broker_that_stops_answering_during_a_command_is_unreachable(error, capsys):
    def fail():
        raise error

    assert run("audit", fail) == 3
    assert capsys.readouterr().err.startswith("hubbub audit: Kafka does not answer: ")


def test_an_unexpected_error_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        run("plan", lambda: 1 // 0)
