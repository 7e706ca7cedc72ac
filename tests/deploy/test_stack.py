"""The stack of deploy/compose.yaml in its short form, and the parts of its stand-in for an engine."""

import re
import subprocess
import sys
from itertools import chain
from pathlib import Path

import dns.message
import dns.rcode
import pytest
import yaml

from tests.brokers import Unavailable, jars, skip
from tests.deploy.compose import COMPOSE, DEPLOY, ROOT
from tests.deploy.observers import tool
from tests.deploy.stack import causes, runbook
from tests.deploy.stack.causes import for_gateway
from tests.deploy.stack.container import Container, Plan, seconds
from tests.deploy.stack.daemon import Daemon
from tests.deploy.stack.drills import DRILLS, GATEWAY, UNDRILLED
from tests.deploy.stack.engine import Project, Refusal
from tests.deploy.stack.images import START, hubbub
from tests.deploy.stack.network import NameServer
from tests.deploy.stack.secured import BROKERS, USERS, password_of, secure
from tests.deploy.stack.stack import ROUTES, RULES, quicken, shorten

pytestmark = pytest.mark.xdist_group("stack")
SHORT = ("--processes", "--alone", "--calm", "60", "--hasten", "12", "--drill")
"""One minute of calm and one drill. Each wait is a twelfth of the real one, and Prometheus looks every 5 s."""


@pytest.mark.parametrize("drill", ["crash-loop", pytest.param("last-worker", marks=pytest.mark.long)])
def test_the_stack_is_calm_and_raises_and_ends_the_alert_of_a_drill(drill):
    try:
        jars()
    except Unavailable as error:
        skip(error)
    tool("prometheus")
    tool("prometheus-alertmanager")
    namespaces = ("unshare", "--net", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/tmp")  # noqa: S108
    if subprocess.run(namespaces, check=False, capture_output=True).returncode:
        skip(RuntimeError("this machine allows no namespaces, which the stack needs"))
    command = [sys.executable, "-m", "tests.deploy.stack", *SHORT, drill]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    rows = [line.strip("| ").split(" | ") for line in process.stdout.splitlines() if line.startswith("| ")]
    assert [(row[0], row[-1]) for row in rows[1:]] == [("calm, 60 s", "passed"), (drill, "passed")]


TMPFS_PROGRAM = """\
import sys
from pathlib import Path
from tests.deploy.stack.container import Container, Mount, Plan
from tests.deploy.stack.images import ROOT, hubbub
from tests.deploy.stack.network import Network
folder = Path(sys.argv[1])
__import__("subprocess").run(("mount", "-t", "tmpfs", "tmpfs", folder), check=True)
mounts = [Mount(str(ROOT.resolve().parent), None, "size=1m,mode=1777")]
plan = Plan("one-1", "one", hubbub(), [], {}, mounts)
container = Container(plan, folder / "containers", Network(lambda name, client: []), None)
place = container.root / ROOT.resolve().relative_to("/")
print((place / "Makefile").is_file(), Path(f"{container.root}{sys.executable}").exists())
"""
"""A container with a tmpfs at the folder that the checkout lies in, for example /tmp."""


def test_a_tmpfs_of_a_service_does_not_hide_the_checkout(tmp_path):
    namespaces = ("unshare", "--net", "--mount", "--pid", "--fork")
    if subprocess.run((*namespaces, "true"), check=False, capture_output=True).returncode:
        skip(RuntimeError("this machine allows no namespaces, which the stack needs"))
    command = [*namespaces, sys.executable, "-c", TMPFS_PROGRAM, str(tmp_path)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.stdout == "True True\n", process.stderr


def test_a_service_that_fails_shows_its_own_last_lines(tmp_path):
    stack = project(tmp_path)
    container = Container.__new__(Container)
    container.plan = Plan(f"{stack.name}-topics-1", "topics", hubbub(), [], {}, [])
    container.state, container.code = "exited", 3
    container.lines = [(0.0, f"line {number}") for number in range(30)]
    stack.containers[container.plan.name] = container
    with pytest.raises(Refusal) as refusal:
        stack._wait("topics", "service_completed_successfully")
    head, *lines = str(refusal.value).splitlines()
    assert head == 'service "topics" didn\'t complete successfully: exit 3'
    assert lines == [f"{stack.name}-topics-1: line {number}" for number in range(20, 30)]


def project(tmp_path):
    return Project(DEPLOY / "compose.yaml", tmp_path, None, None)


def test_the_project_starts_the_services_of_compose_in_the_order_of_their_dependencies(tmp_path):
    services = project(tmp_path).enabled("demo")
    assert set(services) == COMPOSE["services"].keys() - {"grafana", "sink"}
    assert services.index("kafka") < services.index("topics") < services.index("worker")
    assert "simulator" not in project(tmp_path).enabled(None)


def test_each_service_of_a_secured_stack_logs_in_as_a_user_of_its_own(tmp_path):
    stack = Project(DEPLOY / "compose.yaml", tmp_path, None, None, change=secure(tmp_path))
    assert set(stack.services) == COMPOSE["services"].keys() | {*BROKERS}
    services = stack.enabled("demo")
    assert max(map(services.index, BROKERS)) < services.index("topics")
    for name, commands in USERS.items():
        service = stack.services[name]
        variables = service["environment"]
        assert variables["HUBBUB_KAFKA"] == "kafka:9094,kafka-2:9094,kafka-3:9094"
        assert variables["HUBBUB_KAFKA_SECURITY_PROTOCOL"] == "SASL_SSL"
        assert variables["HUBBUB_KAFKA_USERNAME"] == name
        assert [secret for secret in service["secrets"] if "password" in secret] == [password_of(name)]
        assert commands[0] in (name, "simulate")
    passwords = {(tmp_path / password_of(name)).read_text() for name in USERS}
    assert len(passwords) == len(USERS)
    for number, name in enumerate(BROKERS, 1):
        variables = stack.services[name]["environment"]
        assert variables["KAFKA_NODE_ID"] == str(number)
        assert variables["KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR"] == "3"
        assert f"LOGIN://{name}:9094" in variables["KAFKA_ADVERTISED_LISTENERS"]


def test_a_name_vanishes_with_its_last_container():
    addresses = ["172.28.0.2", "172.28.0.3"]
    server = NameServer.__new__(NameServer)
    server.addresses = lambda name, client: addresses if (name, client) == ("worker", "172.28.0.9") else []
    question = dns.message.make_query("worker", "A").to_wire()

    def answer():
        return dns.message.from_wire(server.answer(question, "172.28.0.9"))

    assert sorted(map(str, answer().answer[0])) == addresses
    addresses.clear()
    assert answer().rcode() == dns.rcode.NXDOMAIN


def test_the_image_has_the_values_of_the_dockerfile():
    image = hubbub()
    assert (image.user, image.entrypoint, image.folder) == (10001, ["hubbub"], "/tmp")  # noqa: S108
    assert image.environment["PATH"].startswith("/opt/hubbub/bin:/usr/local/sbin:")
    assert image.environment["HUBBUB_HOST"] == "0.0.0.0"  # noqa: S104
    assert image.healthcheck["test"] == ["CMD", "hubbub-health"]
    assert seconds(image.healthcheck["start_period"]) == 30


def test_the_stand_in_refuses_words_that_it_does_not_know(tmp_path):
    daemon = Daemon.__new__(Daemon)
    daemon.project = project(tmp_path)
    folder = str(ROOT)
    for words in ("version", "compose -f other.yaml ps", "compose rm", "compose stop none", "compose ps --json"):
        assert daemon.answer(folder, words.split())["code"] == 1
    assert daemon.answer(folder, ["compose", "-f", "deploy/compose.yaml", "ps", "--all"])["code"] == 0
    answer = daemon.answer(folder, ["compose", "-f", "deploy/compose.yaml", "exec", "worker", "hubbub-health"])
    assert answer == {"error": 'service "worker" is not running\n', "code": 1}
    with pytest.raises(Refusal):
        daemon.project.first("worker")


def test_the_short_form_looks_more_often(tmp_path):
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    copy = tmp_path / "prometheus.yml"
    copy.write_text(text)
    quicken(copy)
    original = yaml.safe_load(text)
    new_definition = yaml.safe_load(copy.read_text())
    for definition, looks in ((original, "15s"), (new_definition, "5s")):
        assert {definition["global"].pop(name) for name in ("scrape_interval", "evaluation_interval")} == {looks}
        del definition["global"]["scrape_timeout"]
        sources = [*chain.from_iterable(job["dns_sd_configs"] for job in definition["scrape_configs"])]
        assert {source.pop("refresh_interval") for source in sources} == {looks}
    assert original == new_definition


def waits(part):
    """Remove the waits of rules and routes, and return their seconds."""
    if isinstance(part, list):
        return [*chain.from_iterable(map(waits, part))]
    if not isinstance(part, dict):
        return []
    names = [name for name in ("for", "keep_firing_for", "group_wait", "group_interval") if name in part]
    return [seconds(part.pop(name)) for name in names] + waits([*part.values()])


@pytest.mark.parametrize("name", [RULES, ROUTES])
def test_the_short_form_divides_only_waits(name, tmp_path):
    copy = tmp_path / name
    copy.write_text((DEPLOY / "prometheus" / name).read_text())
    shorten(copy, 10)
    original, new_definition = (yaml.safe_load(file.read_text()) for file in (DEPLOY / "prometheus" / name, copy))
    assert waits(original) == [10 * wait for wait in waits(new_definition)]
    assert original == new_definition


def test_each_alert_that_somebody_must_act_on_has_a_drill_or_a_reason_why_not():
    rules = chain.from_iterable(
        group["rules"] for group in yaml.safe_load((DEPLOY / "prometheus" / RULES).read_text())["groups"]
    )
    alerts = {rule["alert"] for rule in rules if rule["labels"]["severity"] != "info"}
    alerts_of_drills = {drill.alert for drill in DRILLS}
    assert alerts <= alerts_of_drills | UNDRILLED.keys()
    assert not alerts_of_drills & UNDRILLED.keys()


def test_the_causes_of_drills_wait_for_metrics_that_exist():
    names = re.findall(r"\bhubbub_[a-z_]+_(?:seconds|total)\b", Path(causes.__file__).read_text())
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert names
    assert [name for name in names if f"`{name}" not in page] == []


@pytest.mark.parametrize("drill", [drill for drill in DRILLS if drill.alert], ids=lambda drill: drill.name)
def test_the_runbook_of_a_drill_has_commands_for_compose(drill):
    lines = runbook.commands(drill.alert, "Diagnosis") + runbook.commands(drill.alert, "Mitigation")
    assert any("docker compose" in line for line in lines)
    assert not any("kubectl" in line or "helm" in line for line in lines)


def test_the_page_allows_what_a_drill_replaces():
    page = (DEPLOY / "runbooks" / "HubbubProcessDown.md").read_text()
    assert "(first command below, or with `gateway`, `board`)" in page
    line = "docker compose -f deploy/compose.yaml up --detach worker"
    assert line in page
    assert for_gateway(line) == ["docker compose -f deploy/compose.yaml up --detach gateway"]
    assert [drill.name for drill in DRILLS if drill.labels == GATEWAY] == ["one-gateway"]


def test_a_command_that_fails_counts_unless_its_service_is_stopped():
    outcomes = [runbook.Outcome(f"docker compose exec {name} date", code, "") for name, code in (("a", 0), ("b", 1))]
    assert runbook.failures(outcomes, ()) == outcomes[1:]
    assert runbook.failures(outcomes, ("b",)) == []


def test_the_start_script_makes_the_settings_of_kafka(tmp_path):
    script = START.format(java="true", jars=".").replace("/tmp", str(tmp_path))  # noqa: S108
    environment = {"PATH": "/usr/bin:/bin", "CLUSTER_ID": "x", "KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_NODE_ID": "1"}
    subprocess.run(("sh", "-c", script), env=environment, check=True)
    assert (tmp_path / "server.properties").read_text() == "node.id=1\n"
