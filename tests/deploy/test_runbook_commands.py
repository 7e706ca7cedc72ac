"""Every command of a runbook fits compose.yaml or the chart: its services, deployments, options and metrics exist."""

import re
import shlex
import subprocess
from functools import cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.deploy import compose
from tests.deploy.charts import CHART, ROOT, documents, helm, tools
from tests.deploy.containers import Container, run
from tests.deploy.observers import PROMETHEUS
from tests.slowness import patience

RUNBOOKS = ROOT / "deploy" / "runbooks"
COMPOSE, SECRETS = compose.SERVICES, compose.COMPOSE["secrets"]
FILTERS = {"grep", "tail"}
OPTIONS = {
    "exec": {"-T": 0, "--index": 1},
    "logs": {"--tail": 1, "--since": 1},
    "ps": {"--all": 0},
    "restart": {},
    "run": {"--rm": 0},
    "stats": {"--no-stream": 0},
    "up": {"--detach": 0, "--no-recreate": 0, "--scale": 1},
}
"""The options of `docker compose` that runbooks use, with the number of their arguments."""
OF_KAFKA = {"kafka-acls.sh", "kafka-configs.sh", "kafka-console-producer.sh", "kafka-topics.sh"}
NOWHERE = "http://127.0.0.1:1"


def commands():
    """Yield each distinct command of the runbooks as a list of words, once, with the page."""
    lines = set()
    for page in sorted(RUNBOOKS.glob("*.md")):
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.splitlines():
                if line not in lines:
                    lines.add(line)
                    yield pytest.param(words(line), id=f"{page.stem}-{len(lines)}")


def words(line):
    """Return the words of the command before its filters, without its comment and its `timeout`."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    pipeline = [[]]
    for word in lexer:
        if word == "|":
            pipeline.append([])
        else:
            pipeline[-1].append(word)
    program, *filters = pipeline
    assert {part[0] for part in filters} <= FILTERS, line
    return program[2:] if program[0] == "timeout" else program


@pytest.fixture(scope="module")
def release():
    """Return the objects of a release `hubbub` with a gateway and a sink, by kind and name."""
    values = "gateway.enabled=true,gateway.tokens.secret=senders,board.token.secret=board"
    values += ",sink.enabled=true,sink.to=s3://estimates/hubbub"
    process = helm("template", "hubbub", CHART, "--namespace", "hubbub", "--set", values)
    assert process.returncode == 0, process.stderr
    return {(d["kind"].lower(), d["metadata"]["name"]): d for d in documents(process.stdout)}


@pytest.mark.parametrize("command", [*commands()])
def test_a_command_fits_the_installation(command, release):
    match command:
        case ["docker", "compose", "-f", file, verb, *rest]:
            assert (ROOT / file).is_file()
            check_compose(verb, rest)
        case ["kubectl", "-n", "hubbub", *rest]:
            check_kubectl(rest, release)
        case ["helm", verb, "hubbub", *rest]:
            assert (verb, rest[0]) in {("upgrade", "helm/hubbub"), ("test", "--namespace")}
            process = helm(
                verb,
                "hubbub",
                *(CHART if word == "helm/hubbub" else word for word in rest),
                "--kube-apiserver",
                NOWHERE,
            )
            assert "refused" in process.stderr, process.stderr
        case ["date", "-u", "+%s"]:
            pass
        case ["cat", file]:
            assert file.removeprefix("deploy/") in {Path(secret["file"]).as_posix() for secret in SECRETS.values()}
        case _:
            pytest.fail(f"unknown command {command}")


def check_compose(verb, rest):
    while rest and rest[0].startswith("-"):
        option, rest = rest[0], rest[1:]
        count = OPTIONS[verb][option]
        if option == "--scale":
            assert rest[0].partition("=")[0] in COMPOSE
        rest = rest[count:]
    if verb not in ("exec", "run"):
        assert set(rest) <= COMPOSE.keys()
        return
    service, *arguments = rest
    if verb == "run":
        assert COMPOSE[service]["entrypoint"] == ["hubbub"]
        # Words of its own would replace those of the service, and with them its number of partitions.
        assert not arguments
        arguments = ["hubbub", *COMPOSE[service]["command"]]
    environment = {name: text for name, text in COMPOSE[service]["environment"].items() if not name.endswith("_FILE")}
    if service == "kafka":
        assert arguments[0] in {"date", "df"} or arguments[0].removeprefix("/opt/kafka/bin/") in OF_KAFKA
        if "--bootstrap-server" in arguments:
            assert arguments[arguments.index("--bootstrap-server") + 1] == "kafka:9092"
        return
    check_inside(service, arguments, environment)


def check_kubectl(words, release):
    """Let the real kubectl read the words. It fails only because no server is there."""
    end = words.index("--") + 1 if "--" in words else len(words)
    assert "refused" in kubectl(*words[:end], *(["true"] if "--" in words else [])), words
    for kind, name in re.findall(r"\b(deployment|service)/([\w-]+)", " ".join(words)):
        assert (kind, name) in release
    for component in re.findall(r"app.kubernetes.io/component=(\w+)", " ".join(words)):
        assert ("deployment", f"hubbub-{component}") in release
    if words[0] == "exec":
        assert words[2] == "--"
        pod = release["deployment", words[1].partition("/")[2]]["spec"]["template"]["spec"]
        container = pod["containers"][0]
        environment = {
            variable["name"]: variable["value"]
            for variable in container["env"]
            if "value" in variable and not variable["name"].endswith("_FILE")
        }
        if words[3] == "cat":
            mount = next(mount for mount in container["volumeMounts"] if words[4].startswith(mount["mountPath"]))
            volume = next(volume for volume in pod["volumes"] if volume["name"] == mount["name"])
            assert words[4] == f"{mount['mountPath']}/{volume['secret']['items'][0]['path']}"
            return
        check_inside(container["name"], words[3:], environment)


@cache
def kubectl(*words):
    """Return the error of the real kubectl without a server."""
    command = [tools() / "kubectl", "--server", NOWHERE, "--token", "none", "-n", "hubbub", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=patience(60), check=False).stderr


def check_inside(component, arguments, environment):
    """Run a command of hubbub with the variables of its container. There is no Kafka, and no process answers."""
    program, *arguments = arguments
    if program == "hubbub-health":
        assert "hubbub-health" in (ROOT / "deploy" / "Dockerfile").read_text()
        ports = set(chain.from_iterable(re.findall(r":(\d+)/", url) for url in arguments))
        assert ports <= {environment["HUBBUB_HEALTH_PORT"]} if ports else component == "worker"
        return
    assert program == "hubbub"
    if arguments[0] == "metrics":
        assert any(arguments[1] in name for name in documented_metrics(component)), arguments
        return
    code, text = outcome(component, tuple(arguments), tuple(sorted(environment.items())))
    assert code == (0 if arguments[0] == "check" else 3), text


@cache
def outcome(component, arguments, environment):
    """Return the exit code and the output of a command with the variables of its container."""
    files = {"/etc/hubbub/hubbub.toml": (ROOT / "deploy" / "hubbub.toml").read_bytes()}
    with TemporaryDirectory() as folder:
        process = run(Container(component, list(arguments), dict(environment), files), Path(folder))
    return process.returncode, process.stdout + process.stderr


def documented_metrics(component):
    """Return the names of the metrics of a process, from docs/metrics.md."""
    parts = re.split(r"^## ", (ROOT / "docs" / "metrics.md").read_text(), flags=re.MULTILINE)
    own_parts = [part for part in parts if part.startswith(("Every process", component.capitalize()))]
    return re.findall(r"^\| `(\w+)`", "\n".join(own_parts), re.MULTILINE)


def test_no_runbook_asks_a_port_that_compose_does_not_publish():
    published = {port.rsplit(":", 1)[1] for service in COMPOSE.values() for port in service.get("ports", [])}
    for page in RUNBOOKS.glob("*.md"):
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.splitlines():
                if " exec " not in line:
                    assert set(re.findall(r"(?:localhost|127\.0\.0\.1):(\d+)", line)) <= published, line


def test_each_page_has_commands_for_compose_and_for_the_chart():
    alerts = re.findall(r"alert: (\w+)", (PROMETHEUS / "alerts.rules.yaml").read_text())
    for name in alerts:
        diagnosis = (RUNBOOKS / f"{name}.md").read_text().split("## Diagnosis")[1]
        assert re.search(r"With Compose:\n```sh\ndocker compose -f deploy/compose.yaml|timeout 20 docker", diagnosis), (
            name
        )
        assert re.search(r"With the chart:\n```sh\n(kubectl -n hubbub|helm|timeout 20 kubectl)", diagnosis), name
