"""A real Prometheus and Alertmanager watch a real worker, board and crowd, and send the right alerts."""

import json
import os
import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from aggregator.demo.broker import free_port
from tests.boards import Board
from tests.deploy.observers import ROOT, Alertmanager, Prometheus, rules, until, webhook
from tests.integration.crowds import crowd
from tests.integration.workers import HUBBUB, Place, Worker, environment
from tests.queries import make_text
from tests.slowness import patience

pytestmark = pytest.mark.xdist_group("prometheus")

JOBS = {
    "Worker": "hubbub-worker",
    "Gateway": "hubbub-gateway",
    "Board": "hubbub-board",
    "Sink": "hubbub-sink",
    "Simulator": "hubbub-simulator",
}
RUNNING = set(JOBS.values())
TIMES = {"crowd": 1, "epsilon": 4.0, "budget": 1000.0, "pane": "1s", "lateness": "1s"}
PAGE = {"domain": ["a", "b", "c", "d", "e", "f", "g", "h"], "oracle": "grr", "windows": ["2s", "4s/2s", "all"]}
PROFILE = {"attributes": {"age": 5, "sex": ["f", "m"]}, "solution": "smp", "oracle": "grr"}
LOAD = {"low": 10, "high": 60000, "scale": "log", "unit": "ms"}
WAITS = {"attributes": {"load": LOAD, "network": ["wifi", "mobile"]}, "groups": {"platform": ["ios", "web"]}}
QUERIES = (
    make_text("page", TIMES | PAGE, threshold=0.05, alerts_a_day=1000.0)
    + make_text("profile", TIMES | PROFILE, threshold=0.1)
    + make_text("waits", TIMES | WAITS, ranges={"load": {"slow": [1000, 60000]}}, oracle="hr")
    + make_text("quiet", crowd=1, domain=4, pane="1s")
)
SURGE = """
[[surge]]
value = "g"
share = 0.4
begins = "6s"
"""
PHONE = "phones"
RARE = ("hubbub:restarted:", "hubbub:recovery:")
"""Rules that have series after a restart only. test_prometheus_quotients plays restarts."""
ELSEWHERE = ("hubbub_clock_offset_seconds", "hubbub_gateway_certificate_expiry_timestamp_seconds")
"""Metrics without series here: the embedded broker stamps no record, and this gateway has no TLS."""
NAME = r"\b((?:hubbub|process)[a-z0-9_]*:?[a-z0-9_:]*|up)\b"
"""The name of a metric or of a recorded series."""


@dataclass
class MetricRow:
    """A row of docs/metrics.md."""

    name: str
    type: str
    labels: set[str]
    help: str
    jobs: set[str] = field(default_factory=set)


def documented_metrics():
    """Yield every row, with the jobs that have the metric."""
    text = (ROOT / "docs" / "metrics.md").read_text()
    for part in text.split("\n## ")[1:]:
        title = part.partition("\n")[0].partition(":")[0]
        jobs = {*JOBS.values()} if title == "Every process" else {JOBS[title]}
        for name, kind, labels, description, _ in re.findall(
            r"^\| `(\w+)` \| (\w+) \|(.*?)\|(.*?)\|(.*)\|$", part, re.MULTILINE
        ):
            yield MetricRow(name, kind, set(labels.replace(",", " ").split()), description.strip(), jobs)


class Deployment:
    """A worker, a board, a gateway, a sink, crowds, Prometheus and Alertmanager. A surge has raised an alert."""

    def __init__(self, stack, broker, folder):
        port, self.notifications = stack.enter_context(webhook())
        alertmanager = stack.enter_context(Alertmanager(port))
        ports = self.ports = {job: free_port() for job in RUNNING}
        addresses = {job: [f"127.0.0.1:{port}"] for job, port in ports.items()}
        token = folder / "board-token"
        token.write_text("0123456789abcdef")
        self.prometheus = stack.enter_context(Prometheus(addresses, alertmanager.port, token))
        self.place = stack.enter_context(Place(broker, folder, QUERIES))
        self.worker = self.place.start(HUBBUB_PORT=str(ports["hubbub-worker"]))
        access = {**os.environ, "HUBBUB_TOKEN_FILE": str(token)}
        self.board = stack.enter_context(Board(self.place.kafka, port=ports["hubbub-board"], env=access))
        self.worker.ready()
        if "hubbub-gateway" in ports:
            tokens = folder / "tokens.toml"
            tokens.write_text(f'[tokens.phones]\nsha256 = ["{sha256(PHONE.encode()).hexdigest()}"]\nquota = 1\n')
            command = [str(HUBBUB), "gateway", "--port", str(ports["hubbub-gateway"]), "--tokens", str(tokens)]
            self.place.workers.append(
                Worker(command, environment(self.place.kafka, self.place.file), folder, "gateway")
            )
            until(self.is_quota_refused, "a refusal by a quota")
        command = [str(HUBBUB), "sink", "--to", str(folder / "files"), "--port", str(ports["hubbub-sink"])]
        self.place.workers.append(Worker(command, environment(self.place.kafka, self.place.file), folder, "sink"))
        (folder / "surge.toml").write_text(SURGE)
        common = ("--clients", 3000, "--seed", 5, "--values")
        surge = ("--port", ports["hubbub-simulator"], "--scenario", folder / "surge.toml")
        crowd(self.place, "page", *surge, *common, "zipf:1.5")
        crowd(self.place, "profile", "--port", 0, *common, "age=uniform", "--values", "sex=uniform")
        waits = ("load=lognormal:6.3,0.8", "--values", "network=uniform", "--groups", "ios=0.6,web=0.3")
        crowd(self.place, "waits", "--port", 0, *common, *waits)
        until(lambda: self.alerts("HubbubHitterSurging"), "an alert of the surge")
        until(lambda: self.prometheus.query("hubbub_true_mse"), "a final with its true error")

    def is_quota_refused(self):
        """Send two reports to the gateway, and return whether it refused them for the quota of one."""
        headers = {"Authorization": f"Bearer {PHONE}", "Content-Type": "application/vnd.hubbub.frames"}
        url = f"http://127.0.0.1:{self.ports['hubbub-gateway']}/v1/reports"
        try:
            urlopen(Request(url, self.place.frame("page", [0, 1]), headers), timeout=patience(10)).close()
        except HTTPError as error:
            with error:
                return error.code == 429
        except OSError:  # it does not listen yet
            return False
        return False

    def alerts(self, name):
        """Return (receiver, alert) for each notification of this alert."""
        return [(receiver, alert) for receiver, alert in self.notifications if alert["labels"]["alertname"] == name]


@pytest.fixture(scope="module")
def deployment(tansu, tmp_path_factory):
    with ExitStack() as stack:
        yield Deployment(stack, tansu, tmp_path_factory.mktemp("deployment"))


@pytest.fixture(scope="module")
def scraped_metrics(deployment):
    """Return for each job the type, labels and help of each metric that Prometheus has scraped."""
    return {job: dict(_metrics_of(deployment.prometheus, job)) for job in deployment.prometheus.targets()}


def _metrics_of(prometheus, job):
    metadata = prometheus.get("/api/v1/targets/metadata", match_target=f'{{job="{job}"}}')["data"]
    series = prometheus.get("/api/v1/series", **{"match[]": f'{{job="{job}"}}'})["data"]
    labels = {}
    for one in series:
        labels.setdefault(one.pop("__name__"), set()).update(
            one.keys() - {"job", "instance", "namespace", "release", "le"}
        )
    for one in metadata:
        kind, name = one["type"], one["metric"]
        name += "_total" * (kind == "counter")
        sample = f"{name}_bucket" if kind == "histogram" else name
        yield name, (kind, labels.get(sample, set()), one["help"])


def test_all_targets_are_up(deployment):
    # A scrape of a busy machine may take longer than the second that it has here.
    until(lambda: deployment.prometheus.targets() == dict.fromkeys(RUNNING, "up"), "all targets are up")


def test_every_documented_metric_exists_and_matches_its_row(scraped_metrics):
    missing = set()
    for row in documented_metrics():
        for job in row.jobs & scraped_metrics.keys():
            if row.name not in scraped_metrics[job]:
                missing.add(row.name)
                continue
            assert scraped_metrics[job][row.name] == (row.type, row.labels, row.help), f"{row.name} of {job}"
        if not row.jobs & scraped_metrics.keys():
            missing.add(row.name)
    assert not missing


def test_every_scraped_metric_is_documented(scraped_metrics):
    for job, names in scraped_metrics.items():
        rows = {row.name for row in documented_metrics() if job in row.jobs}
        assert {name for name in names if name.startswith("hubbub_")} <= rows


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["record"]) for rule in rules("recording.rules.yaml")])
def test_a_recording_rule_produces_series(deployment, rule):
    expression = rule["expr"]
    deployment.prometheus.query(expression)
    if rule["record"].startswith(RARE):
        return
    until(lambda: deployment.prometheus.query(expression), f"series of {expression}")


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["alert"]) for rule in rules("alerts.rules.yaml")])
def test_an_alert_uses_existing_series(deployment, rule):
    deployment.prometheus.query(rule["expr"])
    for match in re.finditer(NAME + r"(\{[^}]*\})?", rule["expr"]):
        selector = match[0]
        # Only the chart records the first one, and nobody sends a report twice here.
        if selector.startswith(("hubbub:processes:configured", *RARE, *ELSEWHERE)) or 'reason="duplicate"' in selector:
            continue
        until(lambda selector=selector: deployment.prometheus.query(selector), f"series of {selector}")


def targets():
    for file in sorted((ROOT / "deploy" / "grafana").glob("*.json")):
        board = json.loads(file.read_text())
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield pytest.param(target["expr"], id=f"{file.stem}: {panel['title']} {target['refId']}")
        for annotation in board["annotations"]["list"]:
            yield pytest.param(annotation["expr"], id=f"{file.stem}: {annotation['name']}")


def chosen(expression):
    """Return an expression of a dashboard in which all values of each variable are chosen."""
    return re.sub(r"\$\w+", ".*", expression.replace("$__rate_interval", "1m"))


@pytest.mark.parametrize("expression", [*targets()])
def test_a_dashboard_shows_series(deployment, expression):
    expression = chosen(expression)
    deployment.prometheus.query(expression)
    if expression.startswith(("ALERTS{", *RARE)) or re.search(r'kind="(fade|arms)"', expression):
        return
    until(lambda: deployment.prometheus.query(expression), f"series of {expression}")


def test_a_variable_of_a_dashboard_has_values(deployment):
    for file in (ROOT / "deploy" / "grafana").glob("*.json"):
        for variable in json.loads(file.read_text())["templating"]["list"]:
            if variable["type"] == "query":
                selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]).groups()
                until(lambda s=selector, la=label: values_of(deployment, s, la), f"values of {variable['query']}")


def values_of(deployment, selector, label):
    """Return the values of a label that a user can choose."""
    series = deployment.prometheus.query(chosen(selector))
    return {sample["metric"].get(label) for sample in series} - {None, ""}


@pytest.mark.parametrize("job", sorted(RUNNING))
@pytest.mark.parametrize("kind", ["application/openmetrics-text", "text/plain"])
def test_a_process_writes_metrics_in_the_accepted_format(deployment, job, kind):
    request = Request(f"http://127.0.0.1:{deployment.ports[job]}/metrics", headers={"Accept": f"{kind}; version=1.0.0"})
    with urlopen(request, timeout=patience(10)) as response:  # noqa: S310 - on this machine
        text = response.read().decode()
        assert response.headers["Content-Type"].startswith(kind)
    assert text.endswith("# EOF\n") == kind.startswith("application")
    assert "_created" not in text


def test_a_surge_reaches_the_analysts_only(deployment):
    for receiver, alert in deployment.alerts("HubbubHitterSurging"):
        assert receiver == "analysts"
        assert alert["labels"]["query"] == "page"
        assert alert["annotations"]["summary"] == "The share of a value of page has risen. The board shows which."
        assert alert["labels"]["namespace"] == "compose"
        assert alert["labels"]["release"] == "hubbub"
        assert "runbooks" not in alert["labels"]
        assert alert["annotations"]["runbook_url"] == "http://127.0.0.1:8803/runbooks/HubbubHitterSurging.md"


def test_nobody_gets_an_alert_when_all_is_well(deployment):
    assert [alert for receiver, alert in deployment.notifications if receiver in ("pager", "operators")] == []


def test_the_board_reports_the_age_of_numbers_when_no_worker_runs(deployment):
    deployment.worker.kill()
    board = 'hubbub_newest_final_age_seconds{job="hubbub-board", query="page"}'
    until(lambda: float(deployment.prometheus.query(board)[0]["value"][1]) > 12, "the newest final ages")
    pending = 'ALERTS{alertname="HubbubNoWorker"}'
    assert until(lambda: deployment.prometheus.query(pending), "the alert about missing workers is pending")
