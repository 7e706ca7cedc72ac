"""The command `hubbub`, its help and its exit."""

import os
import re
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import hubbub
from hubbub import __main__ as command
from hubbub.kafka.clients import PATIENCE
from oracles.kernels import c_library
from tests.queries import make_text


def test_help_names_every_command(capsys):
    for arguments in ([], ["--help"], ["-h"], ["help"]):
        assert command.main(arguments) == 0
        output = capsys.readouterr().out
        assert all(f"  {name}" in output for name in command.COMMANDS)


@pytest.mark.parametrize("name", command.COMMANDS)
def test_the_help_of_each_command_has_an_example(name, capsys):
    with pytest.raises(SystemExit) as ending:
        command.main([name, "--help"])
    assert ending.value.code == 0
    text = capsys.readouterr().out
    assert re.search(rf"^  \$ .*hubbub {name}\b", text, re.MULTILINE)
    assert "Exit code: 0 " in text
    # Wrapped by a terminal, a long line of a help breaks in the middle of words.
    assert max(map(len, text.splitlines())) <= 120
    with pytest.raises(SystemExit):
        command.main(["help", name])
    assert capsys.readouterr().out == text


@pytest.mark.parametrize("before", [[], *([name] for name in command.COMMANDS)])
def test_the_version_is_the_installed_one(before, capsys):
    assert command.main([*before, "--version"]) == 0
    assert capsys.readouterr().out.startswith(f"hubbub {version('hubbub')}, kernels: {c_library.name()}")


def test_an_unknown_command_is_a_usage_error(capsys):
    assert command.main(["cuont"]) == 2
    assert "there is no command 'cuont'\n" in capsys.readouterr().err
    assert command.main(["wroker"]) == 2
    assert "there is no command 'wroker'; did you mean worker?\n" in capsys.readouterr().err


def test_an_unknown_option_offers_the_near_one(capsys):
    for arguments, offer in (["worker", "--kafak", "a:1"], "; did you mean --kafka?\n"), (["tail", "--xyz"], "--xyz\n"):
        with pytest.raises(SystemExit) as ending:
            command.main(arguments)
        assert ending.value.code == 2
        assert capsys.readouterr().err.endswith(offer)


@pytest.mark.parametrize(
    "arguments", ["plan --clients 1e6 --size 1024", "check aggregator/demo/demo.toml", "demo --help"]
)
def test_a_closed_pipe_is_no_error(arguments):
    pipe = f"{sys.executable} -m hubbub {arguments} | true; exit ${{PIPESTATUS[0]}}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = subprocess.run(["bash", "-c", pipe], capture_output=True, env=environment, timeout=60, check=False)
    assert process.returncode == 0
    assert process.stderr == b""


def test_a_client_is_light():
    heavy = ("faust", "aiohttp", "aiokafka", "scipy", "asyncio")
    code = f"import sys, hubbub, oracles, oracles.multi, oracles.query; print([m for m in {heavy} if m in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert process.stdout == "[]\n"


def test_a_command_loads_numpy_after_it_handles_signals():
    """Until then SIGTERM ends the process with -15, which looks like a failure to a supervisor."""
    code = "import sys, hubbub.__main__; print([m for m in ('numpy', 'oracles', 'email') if m in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert process.stdout == "[]\n"


def test_a_command_handles_signals_before_it_loads_modules_that_take_as_long_as_python():
    # Without -S a file of site-packages may load them first.
    code = "import sys, hubbub.__main__; print({'typing', 'enum', 'collections', 're'}.intersection(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(Path(hubbub.__file__).parents[1])}
    command = [sys.executable, "-S", "-c", code]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
    assert process.stdout == "set()\n"


def test_a_worker_starts_without_scipy():
    """SciPy would be a quarter of its imports, which the finals wait for after a restart."""
    code = "import sys, aggregator.worker.command, aggregator.worker.start; print('scipy' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert process.stdout == "False\n"


def test_each_public_name_has_one_short_import():
    code = "import hubbub; print(*(getattr(hubbub, name).__name__ for name in sorted(hubbub.__all__)))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert process.stdout.split() == sorted(hubbub.__all__)


@pytest.mark.parametrize("name", ["worker", "gateway", "board", "tail"])
def test_sigterm_ends_a_command_that_waits_for_a_broker(name, tmp_path):
    file = tmp_path / "hubbub.toml"
    file.write_text(make_text("page", domain=4))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kafka = f"127.0.0.1:{silent.getsockname()[1]}"
        env = {**os.environ, "HUBBUB_KAFKA": kafka, "HUBBUB_QUERIES": str(file), "HUBBUB_PORT": "0"}
        process = subprocess.Popen([sys.executable, "-m", "hubbub", name], env=env)
        try:
            connection, _ = silent.accept()
            with connection:
                process.terminate()
                assert process.wait(PATIENCE / 2) == 0, "before the client gives up"
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["plan", "--clients", "1e6", "--size", "8"]])
def test_a_full_disk_is_one_line_and_code_1(arguments, unbuffered):
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            [sys.executable, "-m", "hubbub", *arguments],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (
        process.stderr
        == "hubbub: the output cannot be written: No space left on device. Free some space, or write elsewhere\n"
    )
    assert process.returncode == 1
