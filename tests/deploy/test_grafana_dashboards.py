"""The dashboards of Grafana are complete, and the code in deploy/grafana makes them."""

import json
import re
import shutil
import subprocess
import sys
from itertools import combinations

import pytest

from tests.deploy.observers import ROOT, rules

GRAFANA = ROOT / "deploy" / "grafana"
BOARDS = {file.stem: json.loads(file.read_text()) for file in sorted(GRAFANA.glob("*.json"))}
PANELS = [
    pytest.param(panel, id=f"{name}: {panel['title']}") for name, board in BOARDS.items() for panel in board["panels"]
]
ALERTS = {rule["alert"] for rule in rules("alerts.rules.yaml")}


def test_the_code_makes_the_stored_dashboards(tmp_path):
    for file in GRAFANA.glob("*.py"):
        shutil.copy(file, tmp_path)
    subprocess.run([sys.executable, "dashboards.py"], cwd=tmp_path, check=True)
    files = {file.name: file.read_text() for file in tmp_path.glob("*.json")}
    assert files == {file.name: file.read_text() for file in GRAFANA.glob("*.json")}


def test_there_is_one_dashboard_for_each_concern():
    assert BOARDS.keys() == {"overview", "query", "gateway", "workers"}
    assert {board["uid"] for board in BOARDS.values()} == {f"hubbub-{name}" for name in BOARDS}


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_has_a_variable_for_each_choice(name):
    variables = {variable["name"]: variable for variable in BOARDS[name]["templating"]["list"]}
    assert variables["datasource"]["query"] == "prometheus"
    assert variables["runbooks"]["type"] == "textbox"
    names = set(re.findall(r"\$\{?(\w+)", json.dumps(BOARDS[name]["panels"]))) - {"__rate_interval"}
    assert names <= variables.keys()
    assert {"query", "instance"} & names


@pytest.mark.parametrize("name", BOARDS)
def test_alerts_are_marked_in_time(name):
    annotation = BOARDS[name]["annotations"]["list"][0]
    assert annotation["enable"]
    assert annotation["expr"].startswith('ALERTS{alertstate="firing", ')


def test_surges_fades_and_groups_that_differ_are_marked_on_the_dashboard_of_a_query():
    _, *marks = BOARDS["query"]["annotations"]["list"]
    assert [mark["name"] for mark in marks] == ["Surge", "Fade", "Groups differ"]
    assert all(mark["enable"] for mark in marks)
    surge, *others = (mark["expr"] for mark in marks)
    assert others == [surge.replace('kind="surge"', f'kind="{kind}"') for kind in ("fade", "arms")]


@pytest.mark.parametrize("panel", PANELS)
def test_a_graph_of_a_share_draws_the_band_of_its_interval(panel):
    """The bands of several groups would cover each other. A table has their intervals."""
    names = {target["legendFormat"]: target["expr"] for target in panel["targets"]}
    if (
        panel["type"] != "timeseries"
        or not re.search(r"\bhubbub_(top_share|hitter_share|quantile|range_share)\b", str(names))
        or "{{group}}" in str(names)
    ):
        return
    assert names.keys() == {"share", "low", "high"}
    overrides = {each["matcher"]["options"]: each["properties"] for each in panel["fieldConfig"]["overrides"]}
    assert {"id": "custom.fillBelowTo", "value": "low"} in overrides["high"]
    assert panel["repeat"] in ("value", "quantile", "range")  # one a panel, so the names of the series are unique


def test_a_dashboard_has_such_a_graph():
    assert sum("custom.fillBelowTo" in json.dumps(panel.values[0]) for panel in PANELS) == 3


def test_each_series_of_groups_is_in_a_panel_of_the_chosen_groups():
    """The other panels are about the total, so no person is counted twice."""
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    series = {name for name, labels in rows if "group" in re.findall(r"\w+", labels)}
    assert len(series) == 6
    text = " ".join(target["expr"] for panel in BOARDS["query"]["panels"] for target in panel["targets"])
    selectors = [(name, selector) for name, selector in re.findall(r"(hubbub_\w+)\{([^}]*)\}", text) if name in series]
    assert all(('group=~"$group"' in selector) != ('group=""' in selector) for _, selector in selectors)
    names = {name for name, selector in selectors if 'group=~"$group"' in selector}
    assert names == series


@pytest.mark.parametrize("name", BOARDS)
def test_every_series_is_of_the_chosen_installations(name):
    """Two installations are never summed, except in the single numbers of the overview."""
    text = json.dumps(BOARDS[name]["panels"])
    for expression in re.findall(r'"expr": "((?:[^"\\]|\\.)*)"', text):
        selectors = re.findall(r"\{[^}]*\}", expression)
        assert selectors
        assert all(r"namespace=~\"$namespace\", release=~\"$release\"" in selector for selector in selectors), (
            expression
        )
        lists = re.findall(r"\bby \(([^)]*)\)", expression)
        assert all(labels.split(", ")[:2] == ["namespace", "release"] for labels in lists), expression


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_has_a_description_a_unit_and_targets(panel):
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [step["value"] for step in steps] == [None, *sorted(step["value"] for step in steps[1:])]
    assert panel["datasource"]["uid"] == "${datasource}"
    assert panel["targets"]
    assert all(target["expr"] and target["datasource"] == panel["datasource"] for target in panel["targets"])


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_links_to_an_existing_runbook(panel):
    for link in panel.get("links", []):
        assert link["url"] in {f"${{runbooks}}/{name}.md" for name in ALERTS}


@pytest.mark.parametrize("name", BOARDS)
def test_panels_do_not_overlap(name):
    boxes = [panel["gridPos"] for panel in BOARDS[name]["panels"]]
    assert all(box["x"] + box["w"] <= 24 for box in boxes)
    for a, b in combinations(boxes, 2):
        across = a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"]
        down = a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]
        assert not (across and down), (a, b)
