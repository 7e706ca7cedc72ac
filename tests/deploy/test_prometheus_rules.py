"""The real promtool and amtool check deploy/prometheus. The runbooks of the alerts are complete."""

import re
import shutil
from collections import defaultdict

import pytest
import yaml

from tests.deploy.observers import PROMETHEUS, ROOT, output, read, rules

ALERTS = {rule["alert"]: rule for rule in rules("alerts.rules.yaml")}
RUNBOOKS = ROOT / "deploy" / "runbooks"
TESTS = sorted((PROMETHEUS / "tests").glob("*.yaml"))
SEVERITIES = {"critical": "pager", "warning": "operators", "info": "analysts"}
"""The receiver for each severity. Nobody receives the alerts of the baseline."""


def test_prometheus_accepts_its_configuration(tmp_path):
    shutil.copytree(PROMETHEUS, tmp_path / "prometheus")
    file = tmp_path / "prometheus" / "prometheus.yml"
    token = tmp_path / "token"
    token.write_text("secret")
    file.write_text(file.read_text().replace("/run/secrets/board-token", str(token)))
    assert "3 rule files found" in output("promtool", "check", "config", "--lint=all", "--lint-fatal", file)


def test_each_rule_occurs_once():
    assert output("promtool", "check", "rules", "--lint=all", "--lint-fatal", *read("prometheus.yml")["rule_files"])


def test_alertmanager_accepts_its_configuration():
    assert "SUCCESS" in output("amtool", "check-config", "alertmanager.yml")


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_rules_pass_their_own_tests(file):
    assert "SUCCESS" in output("promtool", "test", "rules", file)


def test_each_alert_has_a_test_that_fires_and_one_that_does_not():
    outcomes = defaultdict(set)
    for file in TESTS:
        for group in yaml.safe_load(file.read_text())["tests"]:
            for alert_test in group["alert_rule_test"]:
                outcomes[alert_test["alertname"]].add(bool(alert_test.get("exp_alerts")))
    assert outcomes == {name: {True, False} for name in ALERTS}


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_reaches_the_receiver_of_its_severity(name):
    labels = {"alertname": name, **ALERTS[name]["labels"]}
    receivers = output(
        "amtool", "config", "routes", "test", "--config.file=alertmanager.yml", *map("=".join, labels.items())
    )
    receiver = "nobody" if name == "HubbubBaseline" else SEVERITIES[labels["severity"]]
    assert receivers.split() == [receiver]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_summary_and_a_runbook(name):
    annotations = ALERTS[name]["annotations"]
    assert annotations.keys() == {"summary", "runbook_url"}
    assert annotations["summary"].endswith(".")
    assert annotations["runbook_url"] == f"{{{{ $externalLabels.runbooks }}}}/{name}.md"


@pytest.mark.parametrize("name", ALERTS)
def test_a_runbook_has_all_its_parts(name):
    text = (RUNBOOKS / f"{name}.md").read_text()
    assert text.startswith(f"# {name}\n")
    parts = dict(re.findall(r"^## (\w+)\n(.+?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(parts) == ["Meaning", "Impact", "Diagnosis", "Mitigation"]
    assert re.search(r"^```sh\n.+?^```$", parts["Diagnosis"], re.MULTILINE | re.DOTALL)
    assert all(part.strip() for part in parts.values())


def test_each_runbook_belongs_to_an_alert():
    assert {file.stem for file in RUNBOOKS.iterdir()} == {*ALERTS, "README"}


def documented_series():
    """Return the series of docs/metrics.md, with the parts of each histogram."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) ", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    return {
        name + part for name, kind in rows for part in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))
    }


@pytest.mark.parametrize("file", ["recording.rules.yaml", "alerts.rules.yaml"])
def test_rules_keep_the_labels_of_the_installation(file):
    """Otherwise two installations in one Prometheus would hide or dilute each other."""
    for rule in rules(file):
        lists = re.findall(r"\b(?:by|on) \(([^)]*)\)", rule["expr"])
        assert all(labels.split(", ")[:2] == ["namespace", "release"] for labels in lists), rule
        assert not re.search(r"\b(?:without|ignoring|absent|vector)\b", rule["expr"]), rule
        aggregations = re.findall(r"(?<!:)\b(?:sum|min|max|count|avg|topk) ", rule["expr"])
        assert len(aggregations) <= len(re.findall(r"\bby \(namespace, release", rule["expr"])), rule


def test_an_alert_hides_only_others_of_its_installation():
    configuration = read("alertmanager.yml")
    assert all(rule["equal"] == ["namespace", "release"] for rule in configuration["inhibit_rules"])
    routes = [configuration["route"], *configuration["route"]["routes"]]
    assert all(route.get("group_by", ["namespace", "release"])[:2] == ["namespace", "release"] for route in routes)


@pytest.mark.parametrize("file", ["recording.rules.yaml", "alerts.rules.yaml"])
def test_rules_use_only_documented_metrics(file):
    names = {name for rule in rules(file) for name in re.findall(r"\b(?:hubbub|process)_\w+", rule["expr"])}
    assert names <= documented_series()


@pytest.mark.parametrize("file", sorted(RUNBOOKS.iterdir()), ids=lambda file: file.stem)
def test_links_of_a_runbook_lead_to_existing_pages(file):
    for link in re.findall(r"\]\(([^)#]+)", file.read_text()):
        assert (file.parent / link).is_file(), link
