"""The group of workers, as counting uses it: which partitions this worker owns, and the runs of records that arrive.

Faust implements it (faust_group.py). A simulated world has a second implementation.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol


class RunMessage(Protocol):
    """The origin of a run."""

    partition: int


class RunEvent(Protocol):
    """A run of consecutive records, until it is acknowledged."""

    value: Any
    """The run, with its `records`, `first`, `offset` and `newest`."""
    message: RunMessage

    def ack(self) -> Any:
        """Acknowledge all records of the partition up to the last one of this run."""


class GroupMember(Protocol):
    """The reader of reports. The group calls it."""

    def note_assignment(self) -> None:
        """Note that the group has assigned partitions, which must be recovered."""

    async def recover(self) -> None:
        """Recover the assigned partitions before the first run arrives."""

    def resume_offsets(self) -> Mapping[int, int]:
        """Return the offset to read from, by partition."""

    async def count(self, events: AsyncIterator[RunEvent]) -> None:
        """Count the runs of all assigned partitions."""


class Group(Protocol):
    """The group as one of its members sees it."""

    @property
    def generation(self) -> int:
        """The number of the present generation. Each rebalance makes a larger one."""

    @property
    def rebalancing(self) -> bool:
        """Whether a rebalance or a recovery is under way."""

    def join(self, member: GroupMember) -> None:
        """Call this member from the start on."""

    def assigned_partitions(self) -> set[int]:
        """Return the partitions of `reports` that this worker owns."""

    def highwater(self, partition: int) -> int | None:
        """Return the end of a partition at the last fetch, or None if it is unknown."""

    def newest_time(self) -> int:
        """Return the newest log time of all fetched reports in ms, or 0. Its record may not be counted yet."""

    async def seek(self, partition: int, offset: int) -> None:
        """Read this partition from the offset on."""

    def note_written(self, partition: int, offset: int) -> None:
        """Note the offset of an acknowledged record of the changelog."""

    async def run(self) -> None:
        """Take part in the group until it is stopped."""

    async def wait_for_crash(self) -> BaseException:
        """Wait until the group cannot go on, and return the reason."""

    async def stop(self) -> None:
        """Leave the group."""
