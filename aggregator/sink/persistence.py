"""Work on the target that is repeated while it fails."""

import asyncio
import logging
import time
from collections.abc import Callable
from itertools import chain, repeat
from typing import Protocol, TypeVar

from aggregator.errors import TargetUnreachable

log = logging.getLogger(__name__)

SILENCE = 300.0
"""Seconds without an answer of Kafka or of the target after which the process exits."""
_PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before the next try; the last one repeats."""


_Result = TypeVar("_Result")


class Errors(Protocol):
    """A counter of failed tries."""

    def inc(self) -> None: ...


async def persist(work: Callable[[], _Result], errors: Errors) -> _Result:
    """Do work on the target, again and again while that fails. Raise TargetUnreachable after a long time."""
    start = time.monotonic()
    for pause in chain(_PAUSES, repeat(_PAUSES[-1])):
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            errors.inc()
            reason = f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
            if time.monotonic() - start > SILENCE:
                raise TargetUnreachable(f"the target does not work: {reason}") from error
            log.warning("the target does not work (%s); the next try follows in %g s", reason, pause)
            await asyncio.sleep(pause)
    raise AssertionError("the pauses never end")
