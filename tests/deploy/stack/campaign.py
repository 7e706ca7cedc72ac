"""A calm stretch, then the drills one after another, with a table at the end."""

import json
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from itertools import chain

from tests.deploy.stack import runbook
from tests.deploy.stack.causes import COMPOSE, SECOND_GATEWAY
from tests.deploy.stack.drills import Drill
from tests.deploy.stack.engine import Refusal
from tests.deploy.stack.stack import SECOND, Stack, until
from tests.deploy.stack.traffic import Sender
from tests.slowness import patience

ALERTMANAGER = "http://127.0.0.1:9093/api/v2/alerts"
EVERY = 5.0
"""Seconds between two looks at the alerts."""
QUIET = 180.0
"""Seconds of a drill in which nobody may be paged."""
ADVICE = "delete every topic"
"""The start of the advice that `hubbub topics` gives for topics that do not fit one another."""
START = 600.0
"""The longest start of the stack, in seconds."""


class Fault(Exception):
    """An error of the stack: an alert that is missing or wrong, or a command that fails."""


@dataclass
class Row:
    """A row of the table."""

    name: str
    alert: str = ""
    seconds: str = ""
    commands: str = ""
    pages: str = ""
    end: str = ""
    others: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def cells(self) -> list[str]:
        others = ", ".join(sorted(name.removeprefix("Hubbub") for name in self.others))
        return [
            self.name,
            self.alert,
            self.seconds,
            self.commands,
            self.pages,
            self.end,
            others,
            "; ".join(self.faults) or "passed",
        ]


TITLES = ["drill", "alert", "fires, s", "commands", "pages", "over, s", "other alerts", "result"]


class Campaign:
    """The calm stretch and the drills of a stack."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.rows: list[Row] = []
        self._row = Row("start")
        self._end = threading.Event()

    def run(self, calm: float, drills: list[Drill], *, pages: bool) -> int:
        begin = time.monotonic()
        for project in self.stack.projects:
            for name, reason in project.missing.items():
                say(f"{project.name}: no {name}. {reason}")
        self.stack.up()
        watcher = threading.Thread(target=self._watch)
        try:
            self.stack.must(SECOND_GATEWAY)
            token = (self.stack.folder / "deploy" / "secrets" / "phones-token").read_text()
            sender = Sender(self.stack.folder / "deploy" / "hubbub.toml", token)
            until(self.stack.ready, "every target is up and every container is healthy", START)
            until(lambda: sender.answers["202"], "a gateway takes reports", START)
            until(self._silent, "no alert of the start fires any more", START)
            say(f"the stack is up after {time.monotonic() - begin:.0f} s")
            watcher.start()
            self._calm(calm)
            if pages:
                self._run_pages()
            for drill in drills:
                self._drill(drill)
        finally:
            self._end.set()
            if watcher.is_alive():
                watcher.join()
            self._print()
        return 1 if any(row.faults for row in self.rows) else 0

    def _calm(self, seconds: float) -> None:
        self._row = row = Row(f"calm, {seconds:.0f} s")
        self.rows.append(row)
        time.sleep(seconds)
        row.faults += [f"{name} fires" for name in sorted(row.others)]

    def _run_pages(self) -> None:
        """Run each command of each runbook once, while nothing is wrong."""
        self._row = row = Row("all runbooks")
        self.rows.append(row)
        self.stack.must(f"{COMPOSE} up --detach sink")
        until(self.stack.ready, "the sink runs", START)
        outcomes = runbook.run(self.stack, runbook.all_commands())
        failures = [outcome for outcome in outcomes if outcome.code not in (0, *runbook.codes_of(outcome.line))]
        row.commands = f"{len(outcomes) - len(failures)} of {len(outcomes)}"
        row.faults += [f"exit {failure.code}: {failure.line}" for failure in failures]
        row.faults += [f"advises a deletion: {outcome.line}" for outcome in outcomes if ADVICE in outcome.output]
        until(self.stack.ready, "the stack is whole again", START)
        until(self._silent, "no alert fires any more", START)

    def _silent(self) -> bool:
        """Whether no alert above info fires."""
        return all(labels["severity"] == "info" for labels in self.stack.alerts())

    def _watch(self) -> None:
        """Note each alert above info. The second installation must have none."""
        while not self._end.wait(EVERY):
            try:
                alerts = self.stack.alerts()
            except OSError:
                continue
            for labels in alerts:
                if labels["severity"] == "info":
                    continue
                if labels.get("release") == SECOND:
                    fault = f"{labels['alertname']} fires for the second installation"
                    if fault not in self._row.faults:
                        self._row.faults.append(fault)
                elif labels["alertname"] != self._row.alert:
                    self._row.others.add(labels["alertname"])

    def _drill(self, drill: Drill) -> None:
        self._row = row = Row(drill.name, drill.alert)
        self.rows.append(row)
        self.stack.pager.forget()
        try:
            if drill.alert:
                self._follow(drill)
            else:
                self._stay_calm(drill)
        except (TimeoutError, Fault, Refusal, OSError) as error:
            row.faults.append(str(error))
            say(f"{drill.name}: {error}\n{self.stack.sh(COMPOSE + ' ps --all').stdout}")
            self._relieve(drill)
        pages = self.stack.pager.pages
        row.pages = f"{len(pages)}"
        if len(pages) > drill.pages:
            row.faults.append(f"{len(pages)} pages for one failure: {', '.join(sorted(pages))}")

    def _stay_calm(self, drill: Drill) -> None:
        """Cause something that must page nobody, and look for some minutes."""
        drill.cause(self.stack)
        time.sleep(QUIET)
        drill.relief(self.stack)

    def _follow(self, drill: Drill) -> None:
        """Cause a failure, wait for its alert, follow the runbook, and wait until the alert is over."""
        row = self._row
        say(f"{drill.name}: waits until {drill.alert} is silent")
        until(lambda: not self._fires(drill), f"{drill.alert} is silent", 2 * drill.end)
        begin = time.monotonic()
        drill.cause(self.stack)
        alert = until(lambda: self._fires(drill), f"{drill.alert} fires", drill.patience)
        row.seconds = f"{time.monotonic() - begin:.0f}"
        say(f"{drill.name}: {alert['alertname']} fires after {row.seconds} s")
        self._check_way(drill)
        if alert["severity"] == "critical":
            until(lambda: self.stack.pager.pages, "the pager is notified", 120)

        self._repair(drill)
        begin = time.monotonic()
        until(lambda: not self._fires(drill), f"{drill.alert} is over", drill.end)
        until(self.stack.ready, "the stack is whole again", drill.end)
        row.end = f"{time.monotonic() - begin:.0f}"
        say(f"{drill.name}: over after {row.end} s")

    def _repair(self, drill: Drill) -> None:
        """Run the commands of the runbook as written, and end the cause before those of the mitigation."""
        outcomes = runbook.run(self.stack, runbook.commands(drill.alert, "Diagnosis"))
        failures = runbook.failures(outcomes, drill.mute)
        drill.relief(self.stack)
        lines = [*chain.from_iterable(drill.fixes(line) for line in runbook.commands(drill.alert, "Mitigation"))]
        repairs = runbook.run(self.stack, lines)
        failures += runbook.failures(repairs, ())
        self._row.commands = f"{len(outcomes) + len(repairs) - len(failures)} of {len(outcomes) + len(repairs)}"
        for outcome in [*outcomes, *repairs]:
            say(f"  {outcome.code}  {outcome.line}\n{indent(outcome.output)}")
        self._row.faults += [f"exit {failure.code}: {failure.line}" for failure in failures]

    def _relieve(self, drill: Drill) -> None:
        """End the cause of a drill that failed, so that the next one can run."""
        try:
            drill.relief(self.stack)
        except (TimeoutError, Refusal, OSError) as error:
            self._row.faults.append(f"its cause stays: {error}")

    def _fires(self, drill: Drill) -> dict | None:
        """Return the alert of a drill, if Prometheus fires it for the first installation."""
        return next((labels for labels in self.stack.alerts() if self._is_of(drill, labels)), None)

    def _is_of(self, drill: Drill, labels: dict) -> bool:
        goal = {"release": self.stack.project.name, **drill.labels}
        return labels["alertname"] in (drill.alert, *drill.instead) and goal.items() <= labels.items()

    def _check_way(self, drill: Drill) -> None:
        """Check that Alertmanager has the alert, that no other hides it, and that its runbook is served."""
        alerts = until(lambda: self._sent(drill), f"Alertmanager has {drill.alert}", 60)
        visible_alerts = [alert for alert in alerts if not alert["status"]["inhibitedBy"]]
        if not visible_alerts:
            raise Fault(f"another alert hides {drill.alert}")
        url = visible_alerts[0]["annotations"]["runbook_url"]
        with urllib.request.urlopen(url, timeout=patience(10)) as page:
            if visible_alerts[0]["labels"]["alertname"] not in page.read().decode():
                raise Fault(f"{url} is another page")

    def _sent(self, drill: Drill) -> list[dict]:
        with urllib.request.urlopen(ALERTMANAGER, timeout=patience(10)) as answer:
            return [alert for alert in json.load(answer) if self._is_of(drill, alert["labels"])]

    def _print(self) -> None:
        rows = [TITLES, *(row.cells() for row in self.rows)]
        say("\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in rows))


def indent(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(f"      {line[:160]}" for line in (lines if len(lines) <= 6 else [*lines[:3], "...", *lines[-2:]]))


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
