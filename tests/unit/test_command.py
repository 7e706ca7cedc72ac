"""The command: what it says, and how it ends."""

import os
import re
import subprocess
import sys
from importlib.metadata import version

import pytest

from hubbub import __main__ as command
from oracles.kernels import c_library


def test_help_names_every_command(capsys):
    for arguments in ([], ["--help"], ["-h"], ["help"]):
        assert command.main(arguments) == 0
        said = capsys.readouterr().out
        assert all(f"  {name}" in said for name in command.COMMANDS)


@pytest.mark.parametrize("name", command.COMMANDS)
def test_each_command_teaches_with_an_example(name, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main([name, "--help"])
    assert ended.value.code == 0
    assert re.search(rf"^  \$ .*hubbub {name}\b", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("before", [[], *([name] for name in command.COMMANDS)])
def test_the_version_is_the_installed_one(before, capsys):
    assert command.main([*before, "--version"]) == 0
    assert capsys.readouterr().out == f"hubbub {version('hubbub')}, kernels: {c_library.name()}\n"


def test_an_unknown_command_is_a_usage_error(capsys):
    assert command.main(["cuont"]) == 2
    assert "there is no command 'cuont'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", ["plan --clients 1e6 --size 1024", "check aggregator/demo/demo.toml", "demo --help"]
)
def test_a_closed_pipe_is_no_error(arguments):
    piped = f"{sys.executable} -m hubbub {arguments} | true; exit ${{PIPESTATUS[0]}}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ended = subprocess.run(["bash", "-c", piped], capture_output=True, env=environment, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_client_is_light():
    heavy = ("faust", "aiohttp", "aiokafka", "scipy", "asyncio")
    code = f"import sys, hubbub, oracles, oracles.multi, oracles.query; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_what_users_import_has_one_short_name_each():
    code = "import hubbub; print(*(getattr(hubbub, name).__name__ for name in hubbub.__all__))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["Client", "Publisher", "load", "oracle", "read"]
