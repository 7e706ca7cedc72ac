"""The queries of worlds: their files, and a pool of reports for each."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from oracles.query import load_file
from tests.queries import make_text

START = 1_700_000_000.0
"""The Unix time at which each world begins."""
TIMES = {"pane": "5s", "lateness": "2s", "skew": "5s", "budget": 1e9}
TABLES = {
    "share": dict(TIMES, domain=5, oracle="grr", windows=["5s", "20s/5s", "all"], crowd=3, max_ids=4),
    "bits": dict(TIMES, domain=40, oracle="oue", windows=["5s", "15s"], crowd=2),
    # In worlds with three partitions one of them takes no frames of it.
    "hash": dict(TIMES, domain=12, oracle="olh", windows=["10s"], crowd=1, require_id=True, spread=2),
    "pair": dict(TIMES, attributes={"a": 3, "b": 4}, epsilon=2.0, windows=["10s", "20s/10s"], crowd=3),
    "subset": dict(TIMES, domain=9, oracle="ss", windows=["5s", "all"], crowd=2, answers="once"),
    "walsh": dict(TIMES, domain=16, oracle="hr", windows=["10s/5s"], crowd=3, answers="fresh", emit_every="5s"),
    "number": dict(TIMES, domain={"low": 0, "high": 16, "bins": 16}, windows=["5s", "15s"], crowd=2),
    "split": dict(TIMES, attributes={"a": 3, "b": 4}, solution="smp", oracle="grr", windows=["10s"], crowd=2),
    "group": dict(
        TIMES, domain=3, oracle="grr", groups={"platform": ["ios", "web"]}, windows=["5s", "20s/5s"], crowd=2
    ),
}
REVISED = {
    "share": {"lateness": "4s", "windows": ["5s", "15s/5s", "all"], "crowd": 2},
    "bits": {"crowd": 4, "windows": ["5s", "20s/5s"]},
    "hash": {"skew": "10s", "require_id": False},
    "pair": {"lateness": "1s", "windows": ["10s", "all"]},
    "subset": {"windows": ["5s", "10s"]},
    "walsh": {"max_ids": 2},
    "number": {"crowd": 1, "lateness": "3s"},
    "split": {"windows": ["5s", "10s"]},
    "group": {"crowd": 3, "windows": ["5s", "all"]},
}
"""The keys that change in the files of later revisions. None of them changes the digest."""
REVISIONS = 3
"""Files of a world: the first one, one with revised settings that lacks the last query, and the first one again."""
POOL = 60
"""Reports of each query that are made once."""


@cache
def query_path(names=tuple(TABLES), revision=1):
    """Return the path of a query file with these queries."""
    path = Path(mkdtemp(prefix="hubbub-world-")) / "hubbub.toml"
    texts = [make_text(name, TABLES[name]) for name in names]
    if revision == 2:
        texts = [make_text(name, TABLES[name] | REVISED[name]) for name in names if name not in retired(names, 2)]
    path.write_text(f"edition = 2\nrevision = {revision}\n" + "\n".join(texts))
    return path


def retired(names, revision):
    """Return the queries that a file of this revision retires."""
    return {names[-1]} if revision == 2 and len(names) > 1 else set()


@cache
def query_file(names=tuple(TABLES), revision=1):
    """Return the content of the file."""
    return load_file(query_path(names, revision))


@cache
def pool(name):
    """Return the reports of a query."""
    query = query_file().queries[name]
    rng = np.random.default_rng(11)
    sizes = [domain.size for domain in query.domains]
    values = np.column_stack([rng.integers(0, max(1, size // 2), POOL) for size in sizes])
    return query.oracle.perturb(values if len(sizes) > 1 else values[:, 0], rng)
