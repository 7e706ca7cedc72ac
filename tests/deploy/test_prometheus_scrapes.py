"""A real Prometheus and Alertmanager beside a real worker, board and crowd: what they see, and whom they tell."""

import json
import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from urllib.request import Request, urlopen

import pytest

from aggregator.demo.embedded import free_port
from tests.boards import Board
from tests.deploy.observers import ROOT, Alertmanager, Prometheus, rules, until, webhook
from tests.integration.crowds import crowd
from tests.integration.workers import HUBBUB, Place, Worker, environment

pytestmark = pytest.mark.xdist_group("prometheus")

JOBS = {
    "Worker": "hubbub-worker",
    "Gateway": "hubbub-gateway",
    "Board": "hubbub-board",
    "Simulator": "hubbub-simulator",
}
RUNNING = set(JOBS.values())
QUERIES = """
[queries.page]
crowd = 1
domain = ["a", "b", "c", "d", "e", "f", "g", "h"]
oracle = "grr"
epsilon = 4.0
budget = 1000.0
pane = "1s"
windows = ["2s", "4s/2s", "all"]
lateness = "1s"
threshold = 0.05
alerts_a_day = 1000.0

[queries.profile]
crowd = 1
attributes = { age = 5, sex = ["f", "m"] }
solution = "smp"
oracle = "grr"
epsilon = 4.0
budget = 1000.0
pane = "1s"
lateness = "1s"
threshold = 0.1

[queries.quiet]
crowd = 1
domain = 4
epsilon = 1.0
pane = "1s"
"""
SURGE = """
[[surge]]
value = "g"
share = 0.4
begins = "6s"
"""
NAME = r"\b((?:hubbub|process)[a-z0-9_]*:?[a-z0-9_:]*|up)\b"
"""Of a metric or a recorded series."""


@dataclass
class Documented:
    """A row of docs/metrics.md."""

    name: str
    type: str
    labels: set[str]
    help: str
    jobs: set[str] = field(default_factory=set)


def documented():
    """Every row, with the jobs that it is about."""
    text = (ROOT / "docs" / "metrics.md").read_text()
    for part in text.split("\n## ")[1:]:
        title = part.partition("\n")[0].partition(":")[0]
        jobs = {*JOBS.values()} if title == "Every process" else {JOBS[title]}
        for name, kind, labels, said, _ in re.findall(
            r"^\| `(\w+)` \| (\w+) \|(.*?)\|(.*?)\|(.*)\|$", part, re.MULTILINE
        ):
            yield Documented(name, kind, set(labels.replace(",", " ").split()), said.strip(), jobs)


class Watched:
    """Everything at once, until a surge has been told."""

    def __init__(self, stack, broker, folder):
        port, self.told = stack.enter_context(webhook())
        alertmanager = stack.enter_context(Alertmanager(port))
        ports = self.ports = {job: free_port() for job in RUNNING}
        addresses = {job: [f"127.0.0.1:{port}"] for job, port in ports.items()}
        self.prometheus = stack.enter_context(Prometheus(addresses, alertmanager.port))
        self.place = stack.enter_context(Place(broker, folder, QUERIES))
        self.worker = self.place.start(HUBBUB_PORT=str(ports["hubbub-worker"]))
        self.board = stack.enter_context(Board(self.place.kafka, port=ports["hubbub-board"]))
        self.worker.ready()
        if "hubbub-gateway" in ports:
            command = [str(HUBBUB), "gateway", "--port", str(ports["hubbub-gateway"])]
            self.place.workers.append(
                Worker(command, environment(self.place.kafka, self.place.file), folder, "gateway")
            )
        (folder / "surge.toml").write_text(SURGE)
        common = ("--clients", 3000, "--seed", 5, "--values")
        at = ("--port", ports["hubbub-simulator"], "--scenario", folder / "surge.toml")
        crowd(self.place, "page", *at, *common, "zipf:1.5")
        crowd(self.place, "profile", "--port", 0, *common, "age=uniform", "--values", "sex=uniform")
        until(lambda: self.alerted("HubbubHitterSurging"), "an alert of the surge")
        until(lambda: self.prometheus.query("hubbub_true_mse"), "a final beside the truth")

    def alerted(self, name):
        """Who was told of an alert, and what."""
        return [(receiver, alert) for receiver, alert in self.told if alert["labels"]["alertname"] == name]


@pytest.fixture(scope="module")
def watched(tansu, tmp_path_factory):
    with ExitStack() as stack:
        yield Watched(stack, tansu, tmp_path_factory.mktemp("watched"))


@pytest.fixture(scope="module")
def found(watched):
    """What Prometheus knows of each job's metrics: name, type, labels, help."""
    return {job: dict(_found(watched.prometheus, job)) for job in watched.prometheus.targets()}


def _found(prometheus, job):
    described = prometheus.get("/api/v1/targets/metadata", match_target=f'{{job="{job}"}}')["data"]
    series = prometheus.get("/api/v1/series", **{"match[]": f'{{job="{job}"}}'})["data"]
    labels = {}
    for one in series:
        labels.setdefault(one.pop("__name__"), set()).update(one.keys() - {"job", "instance", "le"})
    for one in described:
        kind, name = one["type"], one["metric"]
        name += "_total" * (kind == "counter")
        sample = f"{name}_bucket" if kind == "histogram" else name
        yield name, (kind, labels.get(sample, set()), one["help"])


def test_all_targets_are_up(watched):
    assert watched.prometheus.targets() == dict.fromkeys(RUNNING, "up")


def test_every_metric_that_is_documented_is_there_and_is_what_the_page_says(found):
    missing = set()
    for row in documented():
        for job in row.jobs & found.keys():
            if row.name not in found[job]:
                missing.add(row.name)
                continue
            assert found[job][row.name] == (row.type, row.labels, row.help), f"{row.name} of {job}"
        if not row.jobs & found.keys():
            missing.add(row.name)
    assert not missing


def test_every_metric_that_is_there_is_documented(found):
    for job, names in found.items():
        told = {row.name for row in documented() if job in row.jobs}
        assert {name for name in names if name.startswith("hubbub_")} <= told


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["record"]) for rule in rules("recording.rules.yaml")])
def test_a_recording_rule_brings_series(watched, rule):
    expression = rule["expr"].replace("[1d:1m]", "[1m:1s]")  # a minute is what there is
    watched.prometheus.query(expression)
    until(lambda: watched.prometheus.query(expression), f"series of {expression}")


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["alert"]) for rule in rules("alerts.rules.yaml")])
def test_an_alert_looks_at_series_that_are_there(watched, rule):
    watched.prometheus.query(rule["expr"])
    for selected in re.finditer(NAME + r"(\{[^}]*\})?", rule["expr"]):
        selector = selected[0]
        if selector.startswith("hubbub:quiet"):
            continue
        until(lambda selector=selector: watched.prometheus.query(selector), f"series of {selector}")


def targets():
    for file in sorted((ROOT / "deploy" / "grafana").glob("*.json")):
        board = json.loads(file.read_text())
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield pytest.param(target["expr"], id=f"{file.stem}: {panel['title']} {target['refId']}")
        for annotation in board["annotations"]["list"]:
            yield pytest.param(annotation["expr"], id=f"{file.stem}: {annotation['name']}")


@pytest.mark.parametrize("expression", [*targets()])
def test_a_dashboard_shows_series(watched, expression):
    for name, value in (("$__rate_interval", "1m"), ("$query", ".*"), ("$instance", ".*")):
        expression = expression.replace(name, value)
    watched.prometheus.query(expression)
    if expression.startswith("ALERTS{"):
        return
    until(lambda: watched.prometheus.query(expression), f"series of {expression}")


def test_a_variable_of_a_dashboard_has_values(watched):
    for file in (ROOT / "deploy" / "grafana").glob("*.json"):
        for variable in json.loads(file.read_text())["templating"]["list"]:
            if variable["type"] == "query":
                selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]).groups()
                assert {one["metric"][label] for one in watched.prometheus.query(selector)}, variable["query"]


@pytest.mark.parametrize("job", sorted(RUNNING))
@pytest.mark.parametrize("kind", ["application/openmetrics-text", "text/plain"])
def test_a_process_speaks_the_format_that_it_is_asked_for(watched, job, kind):
    asked = Request(f"http://127.0.0.1:{watched.ports[job]}/metrics", headers={"Accept": f"{kind}; version=1.0.0"})
    with urlopen(asked, timeout=10) as response:  # noqa: S310 - of this machine
        text = response.read().decode()
        assert response.headers["Content-Type"].startswith(kind)
    assert text.endswith("# EOF\n") == kind.startswith("application")
    assert "_created" not in text


def test_a_surge_reaches_those_who_read_the_numbers_and_nobody_else(watched):
    for receiver, alert in watched.alerted("HubbubHitterSurging"):
        assert receiver == "analysts"
        assert alert["labels"]["query"] == "page"
        assert alert["annotations"]["summary"] == "The share of a value of page has risen. The board says which."
        assert alert["annotations"]["runbook_url"] == "deploy/runbooks/HubbubHitterSurging.md"


def test_nobody_is_woken_where_all_is_well(watched):
    assert [alert for receiver, alert in watched.told if receiver in ("pager", "operators")] == []


def test_the_board_knows_how_old_the_numbers_are_when_no_worker_lives(watched):
    watched.worker.kill()
    board = 'hubbub_newest_final_age_seconds{job="hubbub-board", query="page"}'
    until(lambda: float(watched.prometheus.query(board)[0]["value"][1]) > 12, "the newest final ages")
    pending = 'ALERTS{alertname="HubbubNoWorker"}'
    assert until(lambda: watched.prometheus.query(pending), "no worker: somebody will be told")
