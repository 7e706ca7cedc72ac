"""The files of deploy/prometheus, by the real promtool and amtool, and the runbooks that alerts name."""

import re
from collections import defaultdict

import pytest
import yaml

from hubbub.__main__ import COMMANDS
from tests.deploy.observers import PROMETHEUS, ROOT, read, rules, said

ALERTS = {rule["alert"]: rule for rule in rules("alerts.rules.yaml")}
RUNBOOKS = ROOT / "deploy" / "runbooks"
TESTS = sorted((PROMETHEUS / "tests").glob("*.yaml"))
SEVERITIES = {"critical": "pager", "warning": "operators", "info": "analysts"}
"""Who is told; but for the baselines, which nobody is told."""


def test_prometheus_takes_its_configuration():
    assert "2 rule files found" in said("promtool", "check", "config", "--lint=all", "--lint-fatal", "prometheus.yml")


def test_no_rule_stands_twice():
    assert said("promtool", "check", "rules", "--lint=all", "--lint-fatal", *read("prometheus.yml")["rule_files"])


def test_alertmanager_takes_its_configuration():
    assert "SUCCESS" in said("amtool", "check-config", "alertmanager.yml")


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_rules_do_what_their_tests_say(file):
    assert "SUCCESS" in said("promtool", "test", "rules", file)


def test_each_alert_is_tested_firing_and_not_firing():
    outcomes = defaultdict(set)
    for file in TESTS:
        for group in yaml.safe_load(file.read_text())["tests"]:
            for one in group["alert_rule_test"]:
                outcomes[one["alertname"]].add(bool(one.get("exp_alerts")))
    assert outcomes == {name: {True, False} for name in ALERTS}


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_told_to_whom_it_concerns(name):
    labels = {"alertname": name, **ALERTS[name]["labels"]}
    told = said("amtool", "config", "routes", "test", "--config.file=alertmanager.yml", *map("=".join, labels.items()))
    expected = "nobody" if name == "HubbubBaseline" else SEVERITIES[labels["severity"]]
    assert told.split() == [expected]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_is_wrong_and_where_to_read_on(name):
    annotations = ALERTS[name]["annotations"]
    assert annotations.keys() == {"summary", "runbook_url"}
    assert annotations["summary"].endswith(".")
    assert annotations["runbook_url"] == f"deploy/runbooks/{name}.md"


@pytest.mark.parametrize("name", ALERTS)
def test_a_runbook_has_all_its_parts(name):
    text = (RUNBOOKS / f"{name}.md").read_text()
    assert text.startswith(f"# {name}\n")
    parts = dict(re.findall(r"^## (\w+)\n(.+?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(parts) == ["Meaning", "Impact", "Diagnosis", "Mitigation"]
    assert re.search(r"^```sh\n.+?^```$", parts["Diagnosis"], re.MULTILINE | re.DOTALL)
    assert all(part.strip() for part in parts.values())


def test_a_runbook_is_of_an_alert():
    assert {file.stem for file in RUNBOOKS.iterdir()} == {*ALERTS, "README"}


def documented():
    """The names of docs/metrics.md, and those of a histogram's parts."""
    found = re.findall(r"^\| `(\w+)` \| (\w+) ", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    return {
        name + part
        for name, kind in found
        for part in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))
    }


@pytest.mark.parametrize("name", ALERTS)
def test_a_runbook_looks_at_metrics_and_calls_commands_that_there_are(name):
    text = (RUNBOOKS / f"{name}.md").read_text()
    for pattern in re.findall(r"/metrics \| grep (?:-E '([^']+)'|\S+)", text):
        for part in filter(None, pattern.split("|") if "(" not in pattern else [pattern]):
            assert any(re.match(part.partition(".")[0], metric) for metric in documented()), part
    for plain in re.findall(r"/metrics \| grep (hubbub_\w+)", text):
        assert any(metric.startswith(plain) for metric in documented()), plain
    for command in re.findall(r"(?:^|`)hubbub (\w+)", text, re.MULTILINE):
        assert command in COMMANDS


@pytest.mark.parametrize("file", ["recording.rules.yaml", "alerts.rules.yaml"])
def test_rules_are_about_metrics_that_are_documented(file):
    names = {name for rule in rules(file) for name in re.findall(r"\b(?:hubbub|process)_\w+", rule["expr"])}
    assert names <= documented()


@pytest.mark.parametrize("file", sorted(RUNBOOKS.iterdir()), ids=lambda file: file.stem)
def test_a_runbook_leads_to_pages_that_are_there(file):
    for link in re.findall(r"\]\(([^)#]+)", file.read_text()):
        assert (file.parent / link).is_file(), link
