"""The pager of the stack: a receiver of the notifications that Alertmanager sends for critical alerts."""

import http.server
import json
import threading
from pathlib import Path

import yaml

from tests.deploy.stack.network import GATEWAY

PORT = 9099


class Pager(http.server.ThreadingHTTPServer):
    """A server of this program, which lies outside of the project as the services that wake people do."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((GATEWAY, PORT), _Notification)
        self._pages: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def note(self, notification: dict) -> None:
        """Note a notification that something fires. A group that fires on is told again, and is no new page."""
        if notification["status"] == "firing":
            self._pages.append(notification["groupKey"])

    def forget(self) -> None:
        """Begin to count anew."""
        self._pages.clear()

    @property
    def pages(self) -> set[str]:
        """The groups of alerts that somebody was woken for."""
        return set(self._pages)


class _Notification(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.server.note(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write no access log."""


def connect(file: Path) -> None:
    """Let the receiver `pager` of a copy of alertmanager.yml notify this server."""
    definition = yaml.safe_load(file.read_text())
    [pager] = [receiver for receiver in definition["receivers"] if receiver["name"] == "pager"]
    pager["webhook_configs"] = [{"url": f"http://{GATEWAY}:{PORT}/"}]
    file.write_text(yaml.safe_dump(definition, sort_keys=False))
