"""The mixes: how often each fault happens. A change of the draws needs a new mix, so that seeds keep meaning."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mix:
    """The numbers of one mix."""

    name: str
    workers: int = 3
    partitions: int = 3
    seconds: float = 40.0
    """Simulated seconds with faults and load."""
    settle: float = 60.0
    """Simulated seconds after the last fault."""
    faults: int = 25
    queries: int = 4
    """Queries of a world, out of all that worlds know."""
    lost_acks: float = 0.02
    lost_batches: float = 0.3
    """The share of batches on the way that a dead process loses."""
    offset_gaps: float = 0.02
    partial_fetches: float = 0.2
    """The share of fetches in which a partition is left out."""
    short_fetches: float = 0.3
    """The share of fetches that bring fewer records than there are."""
    slow_fetches: float = 0.02
    """The share of fetches of reports that come late."""
    lost_fetches: float = 0.004
    stale_runs: float = 0.5
    """The share of assignments after which runs of the former one still arrive."""
    estimator_deaths: float = 0.002
    lag_scale: float = 0.1
    """The share of Kafka's compaction lags. A freeze is shorter than the scaled lag, as docs/reliability.md demands."""


MIXES = {
    mix.name: mix
    for mix in (
        Mix("3"),
        # For a test that must cost little.
        Mix("short 3", workers=2, partitions=2, seconds=20.0, settle=40.0, faults=8),
    )
}
CHANCES = (
    "lost_acks",
    "lost_batches",
    "offset_gaps",
    "partial_fetches",
    "short_fetches",
    "slow_fetches",
    "lost_fetches",
    "stale_runs",
    "estimator_deaths",
)
"""The numbers of a mix that may be 0."""
