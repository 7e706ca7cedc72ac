"""Tests of the rules that Python writes and the real promtool runs."""

import yaml

from tests.deploy.observers import PROMETHEUS, output

GROUPS = ["targets", "reports", "freshness", "finals", "gateways", "processes", "reading", "publishing", "input"]
INTERVAL = 15
"""Seconds between two scrapes, and between two evaluations of the rules, as in prometheus.yml."""


def series(name, values, **labels):
    """Return an input series. A value of None is a scrape that failed."""
    text = ", ".join(f'{key}="{value}"' for key, value in labels.items())
    numbers = " ".join("stale" if value is None else f"{value:g}" for value in values)
    return {"series": f"{name}{{{text}}}", "values": numbers}


class Rules:
    """One history of series, and the answers of the rules to it."""

    def __init__(self, folder, history, interval=INTERVAL):
        self._file = folder / "rules.yaml"
        self._interval = f"{interval}s"
        self._history = history
        self._alerts = []
        self._expressions = []

    def alert(self, name, seconds, *labels):
        """Expect these alerts of this name after so many seconds, by their labels."""
        expected = [{"exp_labels": alert} for alert in labels]
        self._alerts.append({"eval_time": f"{seconds}s", "alertname": name, "exp_alerts": expected})

    def nothing(self, expression, seconds):
        """Expect that an expression has no series after so many seconds."""
        self._expressions.append({"expr": expression, "eval_time": f"{seconds}s", "exp_samples": []})

    def run(self):
        """Run promtool. It fails if an expectation does not hold."""
        files = [PROMETHEUS / name for name in ("recording.rules.yaml", "alerts.rules.yaml")]
        rules = [self._without_annotations(file) for file in files]
        test = {
            "interval": self._interval,
            "input_series": self._history,
            "alert_rule_test": self._alerts,
            "promql_expr_test": self._expressions,
        }
        text = {
            "rule_files": rules,
            "evaluation_interval": self._interval,
            "group_eval_order": [f"hubbub.{name}" for name in GROUPS],
            "tests": [test],
        }
        self._file.write_text(yaml.safe_dump(text))
        assert "SUCCESS" in output("promtool", "test", "rules", self._file)

    def _without_annotations(self, file):
        # The texts have tests of their own. Here only the labels count.
        rules = yaml.safe_load(file.read_text())
        for group in rules["groups"]:
            for rule in group["rules"]:
                rule.pop("annotations", None)
        copy = self._file.parent / file.name
        copy.write_text(yaml.safe_dump(rules))
        return str(copy)
