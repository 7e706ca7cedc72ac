"""Measure the time from the kill of one of two workers to the next final of every query, and the parts of that time.

python -m benchmarks.kills [--times 20]     needs Java and Maven; a quarter of an hour

Two workers share four partitions and four queries with windows of 2 s, and a process sends frames all the time. The
figure ends when each query's first final whose window ends after the kill has arrived: such finals need the partitions
of both workers. With a name the killed worker is started again at once. Without, the other one takes over, and the
killed one stays away until the finals are there. So the parts are those of the new process, or of the survivor.

A part ends with its event. `session`: the group notices. `imports`: Python has loaded the worker. `gate`: definitions,
formats and topics are read. `rebalance`: the group assigns partitions. `recovery`: the worker counts. `snapshots`: the
panes of the next final are merged. `estimator`: the first answer is there. `final`: all finals have arrived.
"""

import time
from itertools import pairwise
from statistics import median

from benchmarks.harness import BROKER, ROOT, arguments, load_of, place_of, show
from benchmarks.kill_marks import PATCH, VARIABLE, read
from benchmarks.live import send
from benchmarks.many import end_of
from benchmarks.restart import Arrivals
from tests.brokers import Cluster

QUERY = """\
[queries.page{number}]
domain = 64
oracle = "olh"
epsilon = 1.0
budget = 1e9
pane = "2s"
windows = ["2s"]
lateness = "0s"
emit_every = "never"
"""
QUERIES = 4
GOALS = {"a name": (3.0, 5.0), "no name": (8.0, 10.0)}
"""The median and the greatest figure that are allowed, in seconds, on two idle cores."""
PARTS = {
    "a name": ("imports", "gate", "rebalance", "recovery", "snapshots", "estimator"),
    "no name": ("session", "rebalance", "recovery", "snapshots", "estimator"),
}
PHASES = 7
"""The kills are at this many moments of a window, in turns."""


class Pair:
    """Two workers, each with a file of its marks."""

    def __init__(self, place, kind):
        self._place = place
        self._has_name = kind == "a name"
        self._workers = {}
        for name in ("a", "b"):
            self.start(name)
        for worker in self._workers.values():
            worker.ready()

    def marks(self, name):
        return self._place.folder / f"{name}.marks"

    def start(self, name):
        """Start a process of its own. A fork of the tests would have imported everything before."""
        names = {"HUBBUB_INSTANCE": name} if self._has_name else {}
        marks = {VARIABLE: str(self.marks(name)), "PYTHONPATH": str(ROOT)}
        self._workers[name] = self._place.start(patch=PATCH, HUBBUB_LOG_LEVEL="warning", **names, **marks)

    def kill(self, name):
        self._workers[name].kill()

    def ready(self, name):
        self._workers[name].ready()

    def end(self):
        for worker in self._workers.values():
            worker.end()


def all_finals(arrivals, moment):
    """Return when every query has a final whose window ends after a moment."""
    while True:
        by_query = {}
        for key, arrival in arrivals.by_key.copy().items():
            if end_of(key) > moment:
                query = key.partition(b"|")[0]
                by_query[query] = min(arrival, by_query.get(query, arrival))
        if len(by_query) == QUERIES:
            return max(by_query.values())
        time.sleep(0.02)


def measure(pair, arrivals, kind, number):
    """Return the seconds of one kill, and of its parts. The victim and the moment in a window change in turns."""
    victim, survivor = ("a", "b") if number % 2 else ("b", "a")
    all_finals(arrivals, time.time())
    time.sleep(2 * (number % PHASES) / PHASES)

    moment = time.time()
    pair.kill(victim)
    if kind == "a name":
        pair.start(victim)
    end = all_finals(arrivals, moment)

    times = read(pair.marks(victim if kind == "a name" else survivor), moment)
    times = {part: time for part, time in times.items() if time < end}
    # A part without a mark is over with the one before it.
    ends = [moment]
    for part in PARTS[kind]:
        ends.append(max(ends[-1], times.get(part, ends[-1])))
    ends.append(end)
    if kind == "no name":
        pair.start(victim)
    pair.ready(victim)
    return end - moment, [later - earlier for earlier, later in pairwise(ends)]


def report(kind, figures, parts):
    """Print the figures of one kind, their parts, and whether they reach their goals."""
    usual, most = GOALS[kind]
    show(f"{kind}: median {median(figures):.1f} s (goal {usual:.0f}), greatest {max(figures):.1f} s (goal {most:.0f})")
    names = (*PARTS[kind], "final")
    for name, seconds in zip(names, zip(*parts, strict=True), strict=True):
        show(f"    {name:10} median {median(seconds):5.2f} s, greatest {max(seconds):5.2f} s")
    show(f"    all: {' '.join(f'{seconds:.1f}' for seconds in figures)}")


def main():
    options = arguments(__doc__, GOALS, times=(20, "kills of each kind"))
    text = "".join(QUERY.format(number=number) for number in range(QUERIES))
    with Cluster(1, flags=BROKER) as cluster, place_of(cluster, text) as place:
        arrivals = Arrivals(place)
        arrivals.start()
        with load_of(send, place.kafka, str(place.file), 1000, 10):
            for kind in [kind for kind in GOALS if kind in (options.cases or GOALS)]:
                pair = Pair(place, kind)
                results = [measure(pair, arrivals, kind, number) for number in range(options.times)]
                pair.end()
                report(kind, *zip(*results, strict=True))
        arrivals.stop()


if __name__ == "__main__":
    main()
