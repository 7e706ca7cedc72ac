"""The warning about rounds that a device does not renew, because their charges do not fit."""

import warnings

from producers.client.device_limits import Limits

warned_names: set[str] = set()
"""The queries that this process has warned about."""


class RenewalWarning(UserWarning):
    """A query asks for a new round, and the application's limits do not allow its charge."""


def warn_about(name: str, limits: Limits, effect: str) -> None:
    """Warn once in a process for each query. `effect` says what the client does instead."""
    if name in warned_names:
        return
    warned_names.add(name)

    reason = f"max_epsilon = {limits.max_epsilon:g} does not allow it in any {limits.per} s"
    advice = "pass a larger max_epsilon"
    if limits.per is None:
        reason = f"max_epsilon = {limits.max_epsilon:g} is for the life of the store"
        advice = 'pass per="30d", or another time after which charges expire'
    text = f"query {name!r} asks for a new round, but {reason}, so the client {effect}; {advice}"
    warnings.warn(text, RenewalWarning, stacklevel=4)
