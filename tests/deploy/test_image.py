"""deploy/Dockerfile and the files of the image. No engine builds the image here. Its parts run without one."""

import ast
import asyncio
import http.server
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from packaging.requirements import Requirement

from hubbub.definitions import formats
from hubbub.kafka.clients import client_arguments, started
from tests.brokers import create_topics
from tests.deploy.containers import ROOT
from tests.slowness import patience

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
HEALTH, POLICY = DEPLOY / "health.py", DEPLOY / "restart-policy.sh"
BIN = Path(sys.executable).parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BUILD = PYPROJECT["project"], PYPROJECT["dependency-groups"]["build"]


def test_hadolint_accepts_the_dockerfile():
    process = subprocess.run(
        [BIN / "hadolint", "--failure-threshold", "style", DEPLOY / "Dockerfile"], timeout=patience(60), check=False
    )
    assert process.returncode == 0


def test_shellcheck_accepts_the_script():
    subprocess.run([BIN / "shellcheck", POLICY], check=True, timeout=patience(60))


def test_the_dockerfile_names_the_version_and_license_of_the_project():
    assert f"ARG VERSION={PROJECT['version']}" in DOCKERFILE
    assert f'image.licenses="{PROJECT["license"]}"' in DOCKERFILE
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(bases) == 2
    for base in bases:  # the Python version of the tests
        assert re.fullmatch(r"python:3\.11\.\d+(-slim)?-bookworm@sha256:[0-9a-f]{64}", base)


def test_the_last_stage_runs_as_an_ordinary_user_without_build_tools():
    last_stage = DOCKERFILE.split("\nFROM ")[-1]
    assert re.search(r"^USER (\d+):\1$", last_stage, re.MULTILINE)
    assert "apt-get" not in DOCKERFILE
    assert "uninstall --yes --root-user-action=ignore setuptools wheel pip" in last_stage
    assert re.search(r'^ENTRYPOINT \["hubbub"\]$', last_stage, re.MULTILINE)
    assert "HEALTHCHECK" in last_stage


def context() -> set[str]:
    """Return the top-level paths that .dockerignore allows."""
    return {
        path.relative_to(ROOT).as_posix()
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
        for path in ROOT.glob(line[1:])
    }


def test_the_context_contains_the_inputs_of_the_build_and_nothing_private():
    paths = context()
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    inputs = {
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        "LICENSE",
        "deploy/requirements.txt",
        "deploy/build-requirements.txt",
        *wheel["only-include"],
    }
    assert inputs <= paths
    assert not {path for path in paths if re.search(r"^(\.git|\.venv|tests|build|deploy/secrets)", path)}


LOCKS = {
    ROOT / "deploy" / "requirements.txt": ("worker", "gateway", "board", "simulate", "sink"),
    ROOT / ".ci" / "requirements.txt": ("test", "lint"),
}


def requirements(extras):
    """Return the requirements of these extras, and of the extras that they name."""
    result = [Requirement(line) for line in PROJECT["dependencies"]]
    for extra in extras:
        for requirement in map(Requirement, PROJECT["optional-dependencies"][extra]):
            result += requirements(requirement.extras) if requirement.name == "hubbub" else [requirement]
    return result


def pins(lock):
    """Return the versions of each package in a lock file, which must have hashes."""
    text = lock.read_text()
    assert "://" not in text
    assert "index-url" not in text
    rows = re.findall(r"^([a-z0-9-]+)==(\S+)[^\n]* \\\n(?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", text, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^[a-z0-9-]+", text, re.MULTILINE)) >= 10
    return rows


def check_pins(lock, requirements):
    for requirement in requirements:
        versions = [version for name, version in pins(lock) if name == requirement.name]
        assert any(requirement.specifier.contains(version) for version in versions), f"{requirement}: run `make lock`"


def test_the_tools_that_build_the_wheel_are_pinned_too():
    """The hook asks for three of them during the build, and hatchling for one."""
    tree = ast.parse((ROOT / "hatch_build.py").read_text())
    hook = {node.targets[0].id: ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign)}
    requests = {*PYPROJECT["build-system"]["requires"], hook["NODE"], *hook["COMPILES"]}
    assert requests <= set(BUILD)
    check_pins(DEPLOY / "build-requirements.txt", map(Requirement, BUILD))
    for command in ("pip wheel", "--editable .;;", "uv build"):  # each that builds the wheel
        text = DOCKERFILE + (ROOT / "Makefile").read_text()
        lines = [line for line in text.splitlines() if command in line]
        assert lines
        assert all("--no-build-isolation" in line or "--require-hashes" in line for line in lines)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.parent.name)
def test_requirements_have_versions_and_hashes_and_name_no_host(lock):
    assert len(pins(lock)) > 20
    check_pins(lock, requirements(LOCKS[lock]))


LICENSES = """Apache-2.0;Apache Software License;MIT;MIT-0;MIT License;BSD License;BSD-2-Clause;BSD-3-Clause;PSF-2.0
Python Software Foundation License;Repoze Public License;Apache-2.0 AND MIT;Apache-2.0 AND BSD-2-Clause
Apache-2.0 OR BSD-2-Clause;BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0
MPL-2.0 AND (Apache-2.0 OR MIT)""".replace("\n", ";").split(";")
"""The licenses of the packages in the image. None of them extends its terms to the programs that use it."""


def check_licenses(licenses):
    names = re.findall(r"^[a-z0-9-]+(?===)", (DEPLOY / "requirements.txt").read_text(), re.MULTILINE)
    command = [BIN / "pip-licenses", "--from=mixed", "--packages", *names, "--allow-only", ";".join(licenses)]
    return subprocess.run(command, capture_output=True, text=True, timeout=patience(60), check=False)


def test_every_package_has_an_accepted_license():
    process = check_licenses(LICENSES)
    assert process.returncode == 0, process.stderr
    assert "venusian" in check_licenses(set(LICENSES) - {"Repoze Public License"}).stderr


class Answer(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self):
        self.send_response(self.status if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def health(*urls, **environment):
    parent = {name: value for name, value in os.environ.items() if not name.startswith("HUBBUB_")}
    command = [sys.executable, HEALTH, *urls]
    return subprocess.run(
        command, env=parent | environment, capture_output=True, timeout=patience(60), check=False
    ).returncode


def test_a_command_that_answers_is_healthy(server, monkeypatch):
    assert health(HUBBUB_PORT=str(server.server_port)) == 0
    monkeypatch.setattr(Answer, "status", 503)
    assert health(HUBBUB_PORT=str(server.server_port)) == 1
    assert health(HUBBUB_PORT="1") == 1


def test_a_port_of_its_own_decides_if_the_other_port_answers_404(server, monkeypatch):
    port = str(server.server_port)
    assert health(HUBBUB_HEALTH_PORT=port, HUBBUB_PORT="1") == 0
    assert health(HUBBUB_HEALTH_PORT="1", HUBBUB_PORT=port) == 0  # a worker ignores the variable
    monkeypatch.setattr(Answer, "status", 404)
    assert health(HUBBUB_HEALTH_PORT="1", HUBBUB_PORT=port) == 1


def test_health_needs_an_answer_from_every_address(server):
    url = f"http://127.0.0.1:{server.server_port}/healthz"
    assert health(url) == 0
    assert health(url, url.replace("healthz", "gone")) == 1


@pytest.fixture
def policy(tmp_path):
    """Return the environment of the policy, with a fake hubbub that exits with a given code."""
    fake = tmp_path / "hubbub"
    fake.write_text(
        "#!/bin/sh\ntrap 'kill $!; sleep 0.2; exit 0' TERM\necho up\n"
        "if [ $1 = wait ]; then sleep 60 & wait; fi\nexit $1\n"
    )
    fake.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


@pytest.mark.parametrize(("code", "result"), [(0, 0), (1, 1), (2, 0), (3, 3), (4, 0), (137, 137)])
def test_the_policy_hides_exit_codes_that_a_restart_cannot_fix(policy, code, result):
    process = subprocess.run(
        [POLICY, str(code)], env=policy, capture_output=True, text=True, timeout=patience(60), check=False
    )
    assert process.returncode == result
    assert bool(process.stderr) == (code in (2, 4))


def test_the_policy_lets_a_worker_wait_for_the_formats_version_without_a_limit(kafka, tmp_path):
    """With an end, the policy would turn the exit code 4 into 0, and the engine would never start the worker again."""
    target = create_topics(kafka)
    asyncio.run(remove_formats(target))
    (tmp_path / "hubbub").write_text(f'#!/bin/sh\nexec {sys.executable} -m hubbub "$@"\n')
    (tmp_path / "hubbub").chmod(0o755)
    login = {"HUBBUB_KAFKA": target.servers, "HUBBUB_PREFIX": target.prefix, "HUBBUB_PORT": "0"}
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    environment = {**os.environ, **login, **path, "HUBBUB_QUERIES": str(DEPLOY / "hubbub.toml")}
    short = ["-c", PATIENT, str(POLICY)]
    with subprocess.Popen(["sh", *short], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as worker:
        while b"waiting: the topics have formats version 1" not in (line := worker.stderr.readline()):
            assert line
        time.sleep(2)
        assert worker.poll() is None
        command = [sys.executable, "-m", "hubbub", "topics", "--partitions", "4", "--raise-formats"]
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=patience(60))
        assert worker.stdout.readline().startswith(b"hubbub worker: http://")
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=patience(60))
        assert worker.returncode == 0


PATIENT = 'unset HUBBUB_UPGRADE_PATIENCE; exec "$0" worker'


async def remove_formats(where):
    """Leave topics as an older release creates them."""
    producer = AIOKafkaProducer(**client_arguments(where))
    async with started(producer, where):
        await producer.send_and_wait(where.topic("queries"), None, formats.KEY, partition=0)


def test_the_policy_forwards_a_signal_and_waits_for_the_command(policy):
    running = subprocess.Popen([POLICY, "wait"], env=policy, stdout=subprocess.PIPE)
    assert running.stdout.readline() == b"up\n"
    running.send_signal(signal.SIGTERM)
    assert running.wait(patience(30)) == 0
    running.stdout.close()


READ_ONLY = 'mount -o remount,bind,ro / && cd / && exec "$@"'


def test_a_worker_writes_only_to_its_temporary_folder(tansu, tmp_path):
    """Run in a read-only file system. /dev/shm replaces the tmpfs that a container has at /tmp."""
    namespace = ("unshare", "--mount", "sh", "-c")
    if subprocess.run([*namespace, "mount -o remount,bind,ro /"], check=False, capture_output=True).returncode:
        pytest.skip("this machine does not allow mounts")
    kafka = create_topics(tansu)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        queries = Path(folder) / "hubbub.toml"
        queries.write_bytes((DEPLOY / "hubbub.toml").read_bytes())
        options = ("--kafka", kafka.servers, "--prefix", kafka.prefix, "--port", "0", "--embedded")
        worker = (sys.executable, "-m", "hubbub", "worker", *options, "--queries", str(queries))
        environment = {**os.environ, "TMPDIR": folder, "PYTHONPATH": str(ROOT), "HOME": "/nonexistent"}
        touch = subprocess.run(
            [*namespace, READ_ONLY, "-", "touch", "/here"], capture_output=True, text=True, check=False
        )
        assert "Read-only file system" in touch.stderr
        command = [*namespace, READ_ONLY, "-", *worker]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            address = re.search(rb"http://\S+/", running.stdout.readline())[0].decode()
            deadline = time.monotonic() + patience(60)
            while health(f"{address}readyz") and time.monotonic() < deadline:
                assert running.poll() is None
            running.send_signal(signal.SIGTERM)
            log = running.communicate(timeout=patience(60))[1].decode()
    assert running.returncode == 0, log
    assert "Read-only" not in log
