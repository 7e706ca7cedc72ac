"""One failure is one page. A real Alertmanager groups the alerts, and the real amtool renders their text."""

import json
from urllib.request import Request, urlopen

import pytest

from tests.deploy.observers import Alertmanager, output, until, webhook
from tests.slowness import patience

PLACE = {"namespace": "production", "release": "crowd"}
QUERIES = [f"query-{number:03}" for number in range(200)]


def late(query):
    """Return the alert of a query whose finals are late."""
    labels = {**PLACE, "alertname": "HubbubFinalsStale", "severity": "critical", "query": query}
    summary = f"Finals of {query} are 5m late. Reports wait for them."
    return {"labels": labels, "annotations": {"summary": summary, "runbook_url": "https://runbooks.example/x.md"}}


@pytest.mark.xdist_group("prometheus")
def test_two_hundred_late_queries_are_one_page():
    with webhook() as (port, _), Alertmanager(port) as alertmanager:
        request = Request(
            f"http://127.0.0.1:{alertmanager.port}/api/v2/alerts",
            json.dumps([late(query) for query in QUERIES]).encode(),
            {"Content-Type": "application/json"},
        )
        urlopen(request, timeout=patience(10)).close()  # noqa: S310 - on this machine

        def grouped():
            """Return the groups once they hold all alerts, which come in one by one."""
            groups = alertmanager.get("/api/v2/alerts/groups")
            return groups if sum(len(group["alerts"]) for group in groups) == len(QUERIES) else None

        groups = until(grouped, "all alerts are there")
    assert [(group["receiver"]["name"], len(group["alerts"])) for group in groups] == [("pager", len(QUERIES))]
    assert groups[0]["labels"] == {**PLACE, "alertname": "HubbubFinalsStale"}


@pytest.mark.parametrize(("number", "rest"), [(1, ""), (5, ""), (6, "and 1 more"), (200, "and 195 more")])
def test_the_text_of_a_page_names_five_queries(tmp_path, number, rest):
    alerts = [{**late(query), "status": "firing"} for query in QUERIES[:number]]
    data = tmp_path / "data.json"
    labels = {**PLACE, "alertname": "HubbubFinalsStale"}
    common = {"runbook_url": "https://runbooks.example/x.md"}
    data.write_text(json.dumps({"groupLabels": labels, "commonAnnotations": common, "alerts": alerts}))
    glob, text = "--template.glob=page.tmpl", '--template.text={{ template "hubbub.page" . }}'
    lines = output("amtool", "template", "render", glob, text, f"--template.data={data}").strip().splitlines()
    assert lines[0] == f"HubbubFinalsStale of crowd in production: {number} firing"
    assert lines[1 : min(number, 5) + 1] == [f"- {alert['annotations']['summary']}" for alert in alerts[:5]]
    assert [line for line in lines if line.startswith("and ")] == [rest] * bool(rest)
    assert lines[-1] == common["runbook_url"]
