"""The command `hubbub resume`."""

from aggregator.topics.stop import resume as main

__all__ = ["main"]
