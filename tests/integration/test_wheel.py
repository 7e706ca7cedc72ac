"""The wheel in an environment for each extra, which runs all that README promises. No compiler is on its path."""

import os
import re
import subprocess
import sys
import sysconfig
import time
import tomllib
import urllib.request
import venv
import zipfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from aggregator.demo.broker import free_port
from hubbub.__main__ import COMMANDS
from tests.boards import HOMEPAGE, Crowd, definition_messages, in_thread, publish
from tests.brokers import create_topics
from tests.queries import make_text
from tests.slowness import patience

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
QUERIES = make_text("q", domain=["a", "b", "c"])
READ = 'import hubbub; t = hubbub.read("{kafka}", "homepage", prefix="{prefix}"); assert t.height > 10; {more}'
ESTIMATE = """\
import numpy as np, hubbub
for reports in (30, 40_000):
    o = hubbub.oracle("grr", epsilon=1.0, size=8)
    tally = o.tally(list("abcdefgh"))
    tally.add(o.perturb(np.arange(reports) % 8, np.random.default_rng(1)))
    estimate = tally.estimate()
    {code}
"""
FUNCTIONS = {
    "": ["import hubbub; hubbub.load('q.toml'), hubbub.Client, hubbub.oracle", ESTIMATE.format(code="estimate.shares")],
    "kafka": ["import hubbub; hubbub.Publisher, hubbub.Kafka"],
    "http": ["import hubbub; hubbub.HttpPublisher"],
    "stats": [ESTIMATE.format(code="estimate.low, estimate.top(3), hubbub.calibrate(estimate)")],
    "worker": ["import hubbub; hubbub.tallies"],
    "read": [READ.format(kafka="{kafka}", prefix="{prefix}", more=""), ESTIMATE.format(code="estimate.to_frame()")],
    "pandas": [ESTIMATE.format(code="estimate.to_pandas()")],
    "plot": [ESTIMATE.format(code="estimate.plot()")],
    "embedded": ["import hubbub; assert hubbub.find_program()"],
}
"""The functions of each extra, with sparse and dense data."""
WHERE = ["--kafka", "{kafka}", "--prefix", "{prefix}"]
RETIRE_OPTIONS = ["--retire", "homepage", "--retire", "profile"]
RUNS = {
    "pin": ["q", "--queries", "q.toml"],
    "check": ["--queries", "q.toml"],
    "plan": ["--size", "8", "--epsilon", "1", "--clients", "1000"],
    "init": ["--yes"],
    "probe": ["--queries", "q.toml", "--exec", "{python} client.py", "--reports", "200"],
    "topics": [*WHERE],
    "doctor": [*WHERE],
    "rejects": [*WHERE],
    "stop": ["--help"],
    "resume": ["--help"],
    "export": [*WHERE, "--query", "homepage"],
    "tail": [*WHERE, "--json"],
    "audit": [*WHERE],
    "simulate": [*WHERE, "--queries", "q.toml", "--clients", "100", "--seconds", "2", "--port", "0"],
    "replay": ["--help"],
    "asked": ["new", "--help"],
    "publish": ["--help"],
    "metrics": [],
    "worker": [*WHERE, "--queries", "q.toml", *RETIRE_OPTIONS, "--port", "{port}"],
    "gateway": [*WHERE, "--queries", "q.toml", "--port", "0", "--health-port", "{port}"],
    "board": [*WHERE, "--port", "0", "--health-port", "{port}"],
    "sink": [*WHERE, "--to", "files", "--once"],
}
"""The arguments of each command. Those with a health port run until they are stopped."""
CLIENT = "import sys\nfor line in sys.stdin: print('00', flush=True)\n"


def closure(extra):
    """Return the names of the distributions that an installation with this extra has."""
    names, waiting = set(), [*PROJECT["dependencies"], *EXTRAS.get(extra, ())]
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if requirement.name == "hubbub":
            waiting += chain.from_iterable(EXTRAS[name] for name in requirement.extras)
        elif requirement.name not in names:
            names.add(requirement.name)
            with suppress(PackageNotFoundError):
                waiting += distribution(requirement.name).requires or ()
    return names


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run((sys.executable, "-m", "pip", "wheel", *options, ROOT), env=environment, check=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def place(kafka):
    """Topics with a sparse window and a dense one."""
    own = in_thread(lambda: create_topics(kafka))
    crowds = [Crowd(HOMEPAGE, clients=clients, seed=clients) for clients in (60, 20_000)]
    publish(own, [*definition_messages(), *chain.from_iterable(crowd.next() for crowd in crowds)])
    return own


class Environment:
    """An environment with the wheel and the packages of an extra, which are those of these tests."""

    def __init__(self, folder, wheel, extra, kafka):
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
        for name in closure(extra):
            try:
                distribution(name)
            except PackageNotFoundError:
                pytest.skip(f"this environment has no {name}")
            tops = {file.parts[0] for file in distribution(name).files if file.parts[0] not in ("..", "__pycache__")}
            for top in tops:
                with suppress(FileExistsError):
                    (packages / top).symlink_to(distribution(name).locate_file(top))
        (folder / "q.toml").write_text(QUERIES)
        (folder / "client.py").write_text(CLIENT)
        self.names = {"kafka": kafka.servers, "prefix": kafka.prefix, "python": str(self.python)}

    def start(self, *arguments, **names):
        """Start Python with arguments, in which the names of the broker are filled in."""
        command = [self.python, *(text.format(**self.names, **names) for text in arguments)]
        environment = {"PATH": str(self.python.parent), "HOME": str(self.folder), "MPLBACKEND": "Agg"}
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments):
        with self.start(*arguments) as process:
            output, errors = process.communicate()
        return process.returncode, output, errors

    def writes(self, name):
        """Whether a command that runs for ever writes a line. It is stopped then."""
        with self.start("-m", "hubbub", name, *RUNS[name]) as process:
            try:
                return process.stdout.readline() or process.stderr.read()
            finally:
                process.kill()

    def serves(self, name):
        """Whether a command that runs for ever becomes healthy. It is stopped then."""
        port = free_port()

        def answers():
            assert process.poll() is None, process.communicate()
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
                return answer.status == 200

        with self.start("-m", "hubbub", name, *RUNS[name], port=port) as process:
            try:
                deadline = time.monotonic() + patience(60)
                while not (healthy := answers()) and time.monotonic() < deadline:
                    time.sleep(0.1)
                return healthy
            finally:
                process.kill()


def promises():
    """Return the commands and functions of each extra by the table of README."""
    rows = r"^\| (`\w+`|nothing) \|[^|]+\|([^|]*)\|([^|]*)\|$"
    table = re.findall(rows, (ROOT / "README.md").read_text(), re.MULTILINE)
    return {
        name.strip("`").replace("nothing", ""): (re.findall(r"`([\w-]+)`", commands), functions)
        for name, commands, functions in table
    }


def test_the_table_of_readme_has_each_extra_and_each_command():
    table = promises()
    assert table.keys() == {"", *EXTRAS} - {"docs", "test", "lint", "bench"}
    for name, (_, extra, _) in COMMANDS.items():
        assert name in table[extra][0]


@pytest.mark.long
@pytest.mark.parametrize("extra", ["", *(name for name in promises() if name not in ("", "all"))])
def test_an_extra_runs_all_that_readme_promises(extra, wheel, place, tmp_path):
    environment = Environment(tmp_path, wheel, extra, place)
    for code in FUNCTIONS.get(extra, ()):
        number, _, errors = environment.run("-c", code)
        assert number == 0, errors

    for name in promises()[extra][0]:
        if "{port}" in RUNS[name]:
            assert environment.serves(name)
            continue
        if name == "tail":
            assert environment.writes(name).startswith("{")
            continue
        number, output, errors = environment.run("-m", "hubbub", name, *RUNS[name])
        # No process answers `metrics`, the client of `probe` breaks its promise, and no log has these finals.
        assert number in {"metrics": (3,), "probe": (0, 4), "audit": (0, 4)}.get(name, (0,)), errors
        assert "is not installed" not in output + errors


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_remedy_that_a_bare_command_names_is_enough(name, wheel, place, tmp_path):
    number, output, errors = Environment(tmp_path / "bare", wheel, "", place).run("-m", "hubbub", name, "--help")
    if not number:
        return
    assert not output
    [extra] = re.findall(r"run: pip install 'hubbub\[(\w+)\]'\n$", errors)
    number, _, errors = Environment(tmp_path / "whole", wheel, extra, place).run("-m", "hubbub", name, "--help")
    assert number == 0, errors


@pytest.mark.long
def test_a_bare_installation_says_why_it_counts_with_numpy(wheel, place, tmp_path):
    _, output, _ = Environment(tmp_path, wheel, "", place).run("-m", "hubbub", "--version")
    assert output.endswith("kernels: numpy (package cffi is not installed; run: pip install cffi)\n")
