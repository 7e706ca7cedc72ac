"""Prometheus and Alertmanager, with their tools and processes on free ports."""

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
from itertools import chain
from pathlib import Path

import pytest
import yaml

from aggregator.demo.broker import free_port
from aggregator.demo.keeper import Keeper
from tests.brokers import skip
from tests.slowness import patience

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
FOLDER = ROOT / "build" / "prometheus" / "usr" / "bin"
PATIENCE = 60.0
"""The longest wait for an event on an idle machine, in seconds."""


def tool(name):
    """Return the path of a program, from the folder PROMETHEUS or from Debian's packages.

    `make test-deploy` unpacks the packages, or they are installed.
    """
    folders = (os.environ.get("PROMETHEUS", FOLDER), FOLDER, os.environ["PATH"])
    path = shutil.which(name, path=os.pathsep.join(map(str, folders)))
    if path is None:
        skip(RuntimeError(f"no {name}: `make test-deploy` unpacks Debian's prometheus and prometheus-alertmanager"))
    return path


def output(name, *arguments, cwd=PROMETHEUS):
    """Return the output of a tool. Its exit code must be 0."""
    process = subprocess.run([tool(name), *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False)
    assert process.returncode == 0, f"{name} {' '.join(map(str, arguments))}\n{process.stdout}{process.stderr}"
    return process.stdout


def read(name):
    """Return a YAML file of deploy/prometheus."""
    return yaml.safe_load((PROMETHEUS / name).read_text())


def rules(name):
    """Return the rules of a file, in order."""
    return [*chain.from_iterable(group["rules"] for group in read(name)["groups"])]


def until(condition, event, seconds=PATIENCE):
    """Wait until the condition is true, and return its value."""
    begin = time.monotonic()
    result = condition()
    while not result:
        # The load may grow while this waits, so the limit is computed anew.
        assert time.monotonic() - begin < patience(seconds), f"this did not happen within {seconds} s: {event}"
        time.sleep(0.2)
        result = condition()
    return result


class Server:
    """A process that serves HTTP, with its folder. Both end with the test."""

    status = "/api/v1/status/buildinfo"
    """The path that answers when the server is up."""

    def __init__(self, name, configuration, *options):
        program = tool(name)  # first, as the test is skipped without it
        self.port = free_port()
        self._keeper = Keeper(name)
        self._log = self._keeper.folder / "log"
        file = self._keeper.folder / "configuration.yml"
        file.write_text(yaml.safe_dump(configuration))
        address = f"--web.listen-address=127.0.0.1:{self.port}"
        self._keeper.run([program, f"--config.file={file}", address, *options], self._log)

    def __enter__(self):
        until(lambda: self.get(self.status), "the server answers")
        return self

    def __exit__(self, *_):
        self._keeper.close()

    def get(self, path, **query):
        """Return the answer as parsed JSON, or None if there is none yet."""
        assert self._keeper.running, self._log.read_text()
        url = f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(query, doseq=True)}"
        try:
            with urllib.request.urlopen(url, timeout=patience(10)) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 503:  # the server starts
                    return None
                pytest.fail(f"{url}: {error.read().decode()}")
        except OSError:
            return None


class Prometheus(Server):
    """A Prometheus with the configuration of deploy/, shorter intervals, and targets on ports of this machine."""

    def __init__(self, targets, alertmanager, token, interval="1s"):
        configuration = read("prometheus.yml")
        times = ("scrape_interval", "scrape_timeout", "evaluation_interval")
        configuration["global"] |= dict.fromkeys(times, interval)
        configuration["rule_files"] = [str(PROMETHEUS / file) for file in configuration["rule_files"]]
        configuration["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{alertmanager}"]
        assert targets.keys() <= {job["job_name"] for job in configuration["scrape_configs"]}
        for job in configuration["scrape_configs"]:
            del job["dns_sd_configs"]
            job["static_configs"] = [{"targets": targets.get(job["job_name"], [])}]
            if "authorization" in job:
                job["authorization"]["credentials_file"] = str(token)
        super().__init__("prometheus", configuration, "--storage.tsdb.path=data")

    def query(self, expression):
        """Return the current series of an expression."""
        answer = self.get("/api/v1/query", query=expression)
        return answer["data"]["result"] if answer else []

    def targets(self):
        """Return the state of each target, by its job."""
        answer = self.get("/api/v1/targets", state="active")
        return {one["labels"]["job"]: one["health"] for one in answer["data"]["activeTargets"]} if answer else {}


class Alertmanager(Server):
    """An Alertmanager with the configuration of deploy/ and shorter intervals. All its receivers call one webhook."""

    status = "/api/v2/status"

    def __init__(self, webhook):
        configuration = read("alertmanager.yml")
        configuration["templates"] = [str(PROMETHEUS / file) for file in configuration["templates"]]
        _shorten_waits(configuration["route"])
        for receiver in configuration["receivers"]:
            receiver["webhook_configs"] = [{"url": f"http://127.0.0.1:{webhook}/{receiver['name']}"}]
        super().__init__("prometheus-alertmanager", configuration, "--cluster.listen-address=", "--storage.path=data")


def _shorten_waits(route):
    route |= {"group_wait": "0s", "group_interval": "1s"}
    for inner in route.get("routes", []):
        _shorten_waits(inner)


@contextmanager
def webhook():
    """Start a receiver of notifications. Yield its port and the list of (receiver, alert)."""
    notifications = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            notifications.extend((self.path.strip("/"), alert) for alert in body["alerts"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, notifications
        finally:
            server.shutdown()
            thread.join()
