"""The members of the workers' group, as the brokers list them."""

import asyncio
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from hubbub.kafka.settings import WORKER, Kafka

CLIENT = "hubbub-worker/"
"""The start of the client id of every worker that knows formats versions."""
_RELEASE = re.compile(re.escape(CLIENT) + r"(\d{1,6})\.(\d{1,6})")
_LOOKS, _PAUSE = 50, 0.2
"""Looks for the coordinator of the group, which a new cluster must choose first, and seconds between two looks."""


class Member(NamedTuple):
    client_id: str
    host: str

    def __str__(self) -> str:
        return f"{self.client_id or 'a worker'} at {self.host}" if self.host else self.client_id or "a worker"

    @property
    def knows_formats(self) -> bool:
        """Whether the worker exits by itself if it cannot read the topics."""
        return self.client_id.startswith(CLIENT)

    @property
    def release(self) -> tuple[int, int]:
        """The first two numbers of the worker's release, or (0, 0) if its client id has none."""
        match = _RELEASE.match(self.client_id)
        return (int(match[1]), int(match[2])) if match else (0, 0)


async def members(admin: Any, kafka: Kafka) -> list[Member]:
    """Return the members of the group. If the broker refuses the request, raise its error."""
    from aiokafka import errors

    moments = (
        *(errors.GroupCoordinatorNotAvailableError, errors.GroupLoadInProgressError),
        errors.NotCoordinatorForGroupError,
    )
    for more in reversed(range(_LOOKS)):
        try:
            (answer,) = await admin.describe_consumer_groups([kafka.topic(WORKER)])
            # aiokafka raises no error for a refused group. An answer with a code would look like an empty group.
            ((code, group, _, _, _, listed, *_),) = answer.groups
            if code:
                raise errors.for_code(code)(group)
        except moments:
            if not more:
                raise
            await asyncio.sleep(_PAUSE)
        else:
            return sorted(Member(client_id, host.removeprefix("/")) for _, client_id, host, *_ in listed)
    # The last look returns or raises.
    raise AssertionError


async def member_names(admin: Any, kafka: Kafka, is_meant: Callable[[Member], bool] = lambda _: True) -> list[str]:
    """Return the members of the group as messages name them, by default all of them."""
    return [str(member) for member in await members(admin, kafka) if is_meant(member)]
