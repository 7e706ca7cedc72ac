"""The command: what it says, and how it ends."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import hubbub


def test_help_names_every_command(capsys):
    for arguments in ([], ["--help"], ["-h"], ["help"]):
        assert hubbub.main(arguments) == 0
        said = capsys.readouterr().out
        assert all(f"  {name}" in said for name in hubbub.COMMANDS)


@pytest.mark.parametrize("name", hubbub.COMMANDS)
def test_each_command_teaches_with_an_example(name, capsys):
    with pytest.raises(SystemExit) as ended:
        hubbub.main([name, "--help"])
    assert ended.value.code == 0
    assert f"$ hubbub {name}" in capsys.readouterr().out


def test_the_version_is_the_installed_one(capsys):
    assert hubbub.main(["--version"]) == 0
    assert capsys.readouterr().out == f"hubbub {version('hubbub')}\n"


def test_an_unknown_command_is_a_usage_error(capsys):
    assert hubbub.main(["cuont"]) == 2
    assert "there is no command 'cuont'" in capsys.readouterr().err


def test_demo_counts_a_crowd(capsys):
    assert hubbub.main(["demo", "--clients", "2e4", "--epsilon", "2", "--oracle", "oue"]) == 0
    said = capsys.readouterr().out
    assert "each report is 2-LDP and 13 bytes" in said
    assert "20,000 clients" in said
    assert "20 frames" in said
    assert said.count("█") > 30
    held = int(said.split(" of 100 intervals")[0].rsplit("\n", 1)[1])
    assert held >= 80  # of Bin(100, 0.95): fewer by chance once in 10^8 seeds; and the seed is fixed


def test_demo_refuses_what_cannot_be_had(capsys):
    assert hubbub.main(["demo", "--epsilon", "17"]) == 2
    assert capsys.readouterr().err == "hubbub demo: epsilon must be a number above 0 and at most 16, got 17.0\n"


def test_a_closed_pipe_is_no_error():
    demo = f"{sys.executable} -m hubbub demo --clients 1000 | head -1"
    ended = subprocess.run(demo, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.startswith("oracle('olh'")
    assert "Error" not in ended.stderr


def test_a_client_is_light():
    heavy = ("faust", "aiohttp", "aiokafka", "scipy", "asyncio")
    code = f"import sys, oracles, oracles.multi, oracles.query; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
