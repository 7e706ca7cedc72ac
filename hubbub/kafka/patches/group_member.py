"""A group member that never leaves, because the embedded broker can lose the leader of a group.

Tansu appoints the next leader when the session of the leader ends, or when the leader leaves a settled group. If the
leader leaves during a rebalance, Tansu keeps its id as the leader for ever. Then no member gets an assignment.
"""

from aiokafka.consumer import consumer, group_coordinator


class StayingMember(group_coordinator.GroupCoordinator):  # type: ignore[misc] # aiokafka is untyped
    """A member that only stops its heartbeats when it ends, as if it were killed. Its session ends soon after."""

    async def _maybe_leave_group(self) -> None:
        self.reset_generation()


def install() -> None:
    """Make all group members of this process stay."""
    consumer.GroupCoordinator = StayingMember
