"""The fast paths of this process. Each gives the same results as the slow path, with less CPU."""

import logging

log = logging.getLogger(__name__)

_states: dict[str, bool] = {}


def note(name: str, *, on: bool, reason: str) -> None:
    """Note whether a fast path is on. If it is off, log `reason` once."""
    if not on and _states.get(name) is not False:
        log.warning("fast path %s is off, which costs more CPU: %s", name, reason)
    _states[name] = on


def states() -> dict[str, bool]:
    """Return whether each noted fast path is on, by its name."""
    return dict(_states)
