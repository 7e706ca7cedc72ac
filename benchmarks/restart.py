"""Measure how long finals pause when one of two workers is killed, restarted or removed, with and without names.

python -m benchmarks.restart [--times 3]     needs Java and Maven; ten minutes

Two workers share four partitions, and a process sends frames all the time. The figure is the time from the signal to
the arrival of the first final whose window ends after it, because such a final needs the partitions of both. `kill`
sends SIGKILL, and the worker is started again at once. `roll` sends SIGTERM, and the worker is started again when it
has ended. `scale-down` sends SIGTERM only.
"""

import asyncio
import threading
import time
from statistics import median

from aiokafka import TopicPartition

from benchmarks.harness import BROKER, PARTITIONS, arguments, load_of, place_of, show
from benchmarks.live import send
from benchmarks.many import end_of
from hubbub.kafka.clients import consumer
from hubbub.kafka.settings import ESTIMATES
from tests.brokers import Cluster

QUERY = """\
[queries.page]
domain = 64
oracle = "olh"
epsilon = 1.0
budget = 1e9
pane = "1s"
windows = ["1s"]
lateness = "0s"
emit_every = "never"
"""
NAMES = {
    "no name": lambda _: {},
    "a name": lambda name: {"HUBBUB_INSTANCE": name},
    "a name, leaves": lambda name: {"HUBBUB_INSTANCE": name, "HUBBUB_LEAVE": "1"},
}
EVENTS = ("kill", "roll", "scale-down")
SETTLE = 8.0
"""Seconds between two measurements."""


class Arrivals(threading.Thread):
    """A consumer that notes the time at which the final of each window has arrived."""

    def __init__(self, place):
        super().__init__(daemon=True)
        self._kafka = place.kafka
        self._over = threading.Event()
        self.times = {}
        self.by_key = {}

    def run(self):
        asyncio.run(self._read())

    def stop(self):
        self._over.set()
        self.join()

    async def _read(self):
        client = consumer(self._kafka, fetch_max_wait_ms=20)
        await client.start()
        client.assign([TopicPartition(self._kafka.topic(ESTIMATES), p) for p in range(PARTITIONS)])
        await client.seek_to_end()
        while not self._over.is_set():
            for records in (await client.getmany(timeout_ms=50)).values():
                for record in [record for record in records if not record.key.endswith(b"|p")]:
                    self.times.setdefault(end_of(record.key), time.time())
                    self.by_key.setdefault(record.key, time.time())
        await client.stop()

    def first_after(self, moment):
        """Return the seconds until the first final arrived whose window ends after a moment."""
        while True:
            arrivals = [arrival for end, arrival in self.times.copy().items() if end > moment]
            if arrivals:
                return min(arrivals) - moment
            time.sleep(0.02)


def measure(place, arrivals, event, names):
    """Return the seconds of one event, with two new workers."""
    start = {name: lambda name=name: place.start(HUBBUB_LOG_LEVEL="warning", **names(name)) for name in ("a", "b")}
    workers = {name: begin().ready() for name, begin in start.items()}
    time.sleep(SETTLE)
    # A final after both starts shows that both workers publish before the event.
    arrivals.first_after(time.time())

    moment = time.time()
    if event == "kill":
        workers["b"].kill()
    else:
        workers["b"].process.terminate()
        workers["b"].process.wait()
    if event != "scale-down":
        workers["b"] = start["b"]()
    seconds = arrivals.first_after(moment)

    for worker in workers.values():
        worker.end()
    time.sleep(SETTLE)
    return seconds


def main():
    options = arguments(__doc__, times=(3, "measurements of each kind"))
    with Cluster(1, flags=BROKER) as cluster, place_of(cluster, QUERY) as place:
        arrivals = Arrivals(place)
        arrivals.start()
        with load_of(send, place.kafka, str(place.file), 1000, 10):
            for event in EVENTS:
                for label, names in NAMES.items():
                    seconds = [measure(place, arrivals, event, names) for _ in range(options.times)]
                    show(f"{event:10} {label:15} first final after {median(seconds):5.1f} s {seconds}")
        arrivals.stop()


if __name__ == "__main__":
    main()
