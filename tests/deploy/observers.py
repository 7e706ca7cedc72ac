"""Prometheus and Alertmanager as an operator has them: their tools, and their processes on free ports."""

import json
import os
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from aggregator.demo.embedded import free_port
from aggregator.demo.keeper import Keeper
from tests.brokers import missing

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
UNPACKED = ROOT / "build" / "prometheus" / "usr" / "bin"
PATIENCE = 60.0
"""Seconds until something that must come has not; machines that run tests may be slow."""


def tool(name):
    """The path of a program of Debian's packages, unpacked by `make test-deploy` or installed."""
    found = shutil.which(name, path=f"{UNPACKED}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        missing(RuntimeError(f"no {name}: `make test-deploy` unpacks Debian's prometheus and prometheus-alertmanager"))
    return found


def said(name, *arguments, cwd=PROMETHEUS):
    """What a tool prints; it must end with 0."""
    ended = subprocess.run([tool(name), *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{name} {' '.join(map(str, arguments))}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def read(name):
    """A YAML file of deploy/prometheus."""
    return yaml.safe_load((PROMETHEUS / name).read_text())


def rules(name):
    """The rules of a file, in order."""
    return [rule for group in read(name)["groups"] for rule in group["rules"]]


def until(condition, what, seconds=PATIENCE):
    """What the condition comes to, once it is true."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"it does not come to pass: {what}"
        time.sleep(0.2)
    return found


class Server:
    """A process that serves HTTP, with its folder, gone with the test."""

    status = "/api/v1/status/buildinfo"
    """Where it says that it lives."""

    def __init__(self, name, configuration, *options):
        program = tool(name)  # before there is anything to put away: where it is not here, the test is skipped
        self.port = free_port()
        self._keeper = Keeper(name)
        self._log = self._keeper.folder / "log"
        file = self._keeper.folder / "configuration.yml"
        file.write_text(yaml.safe_dump(configuration))
        where = f"--web.listen-address=127.0.0.1:{self.port}"
        self._keeper.run([program, f"--config.file={file}", where, *options], self._log)

    def __enter__(self):
        until(lambda: self.get(self.status), "it answers")
        return self

    def __exit__(self, *_):
        self._keeper.close()

    def get(self, path, **query):
        """What it answers, as parsed JSON; None while it does not."""
        assert self._keeper.running, self._log.read_text()
        url = f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(query, doseq=True)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                return json.load(response)
        except urllib.error.HTTPError as refused:
            with refused:
                if refused.code == 503:  # it starts
                    return None
                pytest.fail(f"{url}: {refused.read().decode()}")
        except OSError:
            return None


class Prometheus(Server):
    """A Prometheus with the repository's configuration, hastened, and its targets on ports of this machine."""

    def __init__(self, targets, alertmanager):
        configuration = read("prometheus.yml")
        configuration["global"] = dict.fromkeys(configuration["global"], "1s")
        configuration["rule_files"] = [str(PROMETHEUS / file) for file in configuration["rule_files"]]
        configuration["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{alertmanager}"]
        assert targets.keys() <= {job["job_name"] for job in configuration["scrape_configs"]}
        for job in configuration["scrape_configs"]:
            del job["dns_sd_configs"]
            job["static_configs"] = [{"targets": targets.get(job["job_name"], [])}]
        super().__init__("prometheus", configuration, "--storage.tsdb.path=data")

    def query(self, expression):
        """The series of an expression now."""
        answer = self.get("/api/v1/query", query=expression)
        return answer["data"]["result"] if answer else []

    def targets(self):
        """The state of each target, by its job."""
        answer = self.get("/api/v1/targets", state="active")
        return {one["labels"]["job"]: one["health"] for one in answer["data"]["activeTargets"]} if answer else {}


class Alertmanager(Server):
    """An Alertmanager with the repository's configuration, hastened, whose receivers all tell one webhook."""

    status = "/api/v2/status"

    def __init__(self, webhook):
        configuration = read("alertmanager.yml")
        _hasten(configuration["route"])
        for receiver in configuration["receivers"]:
            receiver["webhook_configs"] = [{"url": f"http://127.0.0.1:{webhook}/{receiver['name']}"}]
        super().__init__("prometheus-alertmanager", configuration, "--cluster.listen-address=", "--storage.path=data")


def _hasten(route):
    route |= {"group_wait": "0s", "group_interval": "1s"}
    for inner in route.get("routes", []):
        _hasten(inner)


@contextmanager
def webhook():
    """A receiver of notifications: its port, and what has arrived, as (receiver, alert)."""
    arrived = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            arrived.extend((self.path.strip("/"), alert) for alert in body["alerts"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, arrived
        finally:
            server.shutdown()
            thread.join()
