"""The queries of worlds: their file, and a pool of reports for each."""

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
}
POOL = 60
"""Reports of each query that are made once."""


@cache
def query_path(names=tuple(TABLES)):
    """Return the path of a query file with these queries."""
    path = Path(mkdtemp(prefix="hubbub-world-")) / "hubbub.toml"
    path.write_text("edition = 2\n" + "\n".join(make_text(name, TABLES[name]) for name in names))
    return path


@cache
def query_file(names=tuple(TABLES)):
    """Return the content of the file."""
    return load_file(query_path(names))


@cache
def pool(name):
    """Return the reports of a query."""
    query = query_file().queries[name]
    rng = np.random.default_rng(11)
    sizes = [domain.size for domain in query.domains]
    values = np.column_stack([rng.integers(0, max(1, size // 2), POOL) for size in sizes])
    return query.oracle.perturb(values if len(sizes) > 1 else values[:, 0], rng)
