"""`hubbub topics` refuses a wrong command line, environment or login."""

import pytest

from aggregator.demo.broker import free_port
from aggregator.topics import command as topics


def test_an_absent_broker_is_exit_code_3(capsys):
    assert topics.main(["--kafka", f"127.0.0.1:{free_port()}"]) == 3
    assert "cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--partitions", "0"], "whole number from 1 to 10,000"),
        (["--replication", "many"], "whole number from 1 to 100"),
        (["--kafka", "localhost"], "HOST:PORT"),
        (["--prefix", "a/b"], "prefix"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_wrong_options_are_exit_code_2(options, text, capsys):
    with pytest.raises(SystemExit) as ending:
        topics.main(options)
    assert ending.value.code == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("size", ["0", "65MiB", "large"])
def test_a_wrong_frame_size_is_exit_code_2(size, capsys, monkeypatch):
    monkeypatch.setenv("HUBBUB_MAX_FRAME", size)
    with pytest.raises(SystemExit) as ending:
        topics.main([])
    assert ending.value.code == 2
    assert "HUBBUB_MAX_FRAME" in capsys.readouterr().err


def test_an_incomplete_login_is_exit_code_2(capsys, monkeypatch):
    monkeypatch.setenv("HUBBUB_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    assert topics.main([]) == 2
    assert "HUBBUB_KAFKA_PASSWORD" in capsys.readouterr().err


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit) as ending:
        topics.main(["--help"])
    assert ending.value.code == 0
    output = capsys.readouterr().out
    for words in (
        "$ hubbub topics --kafka",
        "--dry-run",
        "HUBBUB_PREFIX",
        "_SECURITY_PROTOCOL",
        "Exit code",
        "4 a fault cannot be fixed",
    ):
        assert words in output
