"""`hubbub worker` refuses a wrong command line, environment or query file with exit code 2, and no broker with 3."""

import pytest

from aggregator.demo.broker import free_port
from tests.commands import run_worker
from tests.queries import make_text

PAGE = make_text("page", domain=["a", "b"], epsilon=2.0, pane="1s")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "hubbub.toml"
    path.write_text(PAGE)
    return path


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--nonsense"], "--nonsense"),
        (["--port", "web"], "--port"),
        (["--kafka", "localhost"], "HOST:PORT"),
        (["--checkpoint-bytes-per-s", "0"], "--checkpoint-bytes-per-s must be above 0"),
        (["--instance", "a b"], "an instance may have 1 to 249 of the characters"),
        (["--instance", "a", "--embedded"], "--instance needs Apache Kafka"),
        (["--leave"], "--leave needs --instance"),
        (["--log", "xml"], "must be one of json, console"),
    ],
)
def test_wrong_options_are_exit_code_2(options, text, capsys, monkeypatch):
    with pytest.raises(SystemExit) as ending:
        run_worker(monkeypatch, *options)
    assert ending.value.code == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(("name", "value"), [("LOG", "xml"), ("LOG_LEVEL", "loud"), ("MAX_FRAME", "large")])
def test_a_wrong_environment_is_exit_code_2(name, value, capsys, monkeypatch):
    monkeypatch.setenv(f"HUBBUB_{name}", value)
    with pytest.raises(SystemExit) as ending:
        run_worker(monkeypatch)
    assert ending.value.code == 2
    assert value in capsys.readouterr().err


def test_a_wrong_query_file_is_exit_code_2(file, capsys, monkeypatch):
    file.write_text(PAGE.replace("epsilon = 2.0", "epsilon = -1.0"))
    assert run_worker(monkeypatch, "--queries", file) == 2
    output = capsys.readouterr().err
    assert str(file) in output
    assert "epsilon" in output


def test_an_absent_broker_is_exit_code_3(file, capsys, monkeypatch):
    assert run_worker(monkeypatch, "--queries", file, "--kafka", f"127.0.0.1:{free_port()}") == 3
    assert "cannot be reached" in capsys.readouterr().err
