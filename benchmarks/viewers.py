"""Measure the board's CPU time for one pane of records, without viewers and with a hundred viewers.

python -m benchmarks.viewers            events only, then events and the requests of a page after each
"""

import http.client
import itertools
import threading
import time
from contextlib import ExitStack, closing

from tests.boards import HOMEPAGE, PANE, Board, Crowd, definition_messages, publish
from tests.brokers import Tansu, create_topics

VIEWERS = 100
PANES = 20
REQUESTS = ("estimate?top=15", "history?value=books.example", "windows?limit=200")


class Viewer(threading.Thread):
    """A page's event stream. With `asks` it also sends the page's requests after each record of its window."""

    def __init__(self, port: int, *, asks: bool) -> None:
        super().__init__(daemon=True)
        self.port, self.asks = port, asks
        self.heard = 0
        self.stream = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.stream.request("GET", "/api/v1/events")
        self.lines = self.stream.getresponse()

    def run(self) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            while line := self.lines.readline():
                if not line.startswith(b"data:") or b'"tumbling"' not in line or b'"share"' in line:
                    continue
                self.heard += 1
                for path in REQUESTS if self.asks else ():
                    connection.request("GET", f"/api/v1/queries/homepage/{path}")
                    connection.getresponse().read()


def cpu_seconds(board: Board) -> float:
    """Return the CPU seconds of the board so far."""
    [line] = [line for line in board.get("metrics").body.splitlines() if line.startswith(b"process_cpu_seconds_total")]
    return float(line.split()[1])


def measure(broker: Tansu, viewers: int, *, asks: bool) -> float:
    """Return the CPU milliseconds of the board for a pane."""
    kafka = create_topics(broker)
    start = int(time.time()) // PANE * PANE - 2 * PANES * PANE
    crowd = Crowd(HOMEPAGE, start=start)
    publish(kafka, [*definition_messages(), *itertools.chain(*[crowd.next() for _ in range(7)])])
    with ExitStack() as stack:
        board = stack.enter_context(Board(kafka, "--trusted-proxies", "127.0.0.1")).ready()
        viewers_of_board = [Viewer(board.port, asks=asks) for _ in range(viewers)]
        for viewer in viewers_of_board:
            viewer.start()
        time.sleep(1.0)

        # Streams are open before the first pane, so each viewer hears all of them.
        panes = [list(crowd.next()) for _ in range(PANES)]
        start_cpu = cpu_seconds(board)
        for pane in panes:
            publish(kafka, pane)
            time.sleep(0.5)
        board.until(lambda: all(viewer.heard >= PANES for viewer in viewers_of_board), 60.0)
        time.sleep(1.0)
        return 1e3 * (cpu_seconds(board) - start_cpu) / PANES


def main() -> None:
    with Tansu() as broker:
        alone = measure(broker, 0, asks=False)
        print(f"no viewer                 {alone:8.1f} ms per pane")
        for asks in (False, True):
            took = measure(broker, VIEWERS, asks=asks)
            action = "listen and ask" if asks else "listen"
            print(f"{VIEWERS} that {action:16} {took:8.1f} ms per pane, {(took - alone) / VIEWERS:.2f} ms each")


if __name__ == "__main__":
    main()
