"""The members of the workers' group that differ from aiokafka's.

One notices that the broker refuses its group protocol, one has a name in addition, and one never leaves.
"""

import asyncio
import copy
from collections.abc import Callable
from typing import Any, ClassVar

from aiokafka import errors
from aiokafka.consumer import consumer, group_coordinator
from aiokafka.protocol.group import JoinGroupRequest

_FENCED = 82
"""The error code of a request by a member whose name another process has taken. aiokafka has no class for it."""


class StayingMember(group_coordinator.GroupCoordinator):  # type: ignore[misc] # aiokafka is untyped
    """A member that only stops its heartbeats when it ends, as if it were killed. Its session ends soon after.

    The embedded broker can lose the leader of a group. Tansu appoints the next leader when the session of the leader
    ends, or when the leader leaves a settled group. If the leader leaves during a rebalance, Tansu keeps its id as the
    leader for ever, and no member gets an assignment.
    """

    async def _maybe_leave_group(self) -> None:
        self.reset_generation()


class ClassicMember(group_coordinator.GroupCoordinator):  # type: ignore[misc]
    """A member of a classic group. Brokers may offer only the newer protocol, which aiokafka lacks."""

    on_refusal: ClassVar[Any]
    """A function that is called in the thread of the consumer when the broker refuses classic groups."""

    async def _send_req(self, request: Any) -> Any:
        """Send a request to the coordinator of the group. Stop if it takes no request to join."""
        try:
            answer = await super()._send_req(request)
        except errors.IncompatibleBrokerVersion:
            await self._stop(request)
            raise
        if getattr(answer, "error_code", 0) == errors.UnsupportedVersionError.errno:
            await self._stop(request)
        return answer

    async def _stop(self, request: Any) -> None:
        if request.API_KEY == JoinGroupRequest.API_KEY:
            self.on_refusal()
            await asyncio.sleep(1.0)  # the process ends, and aiokafka would ask again at once


class StaticMember(ClassicMember):
    """A member with a name, `group.instance.id`. A process that comes back under it gets its partitions at once.

    The broker knows the newest process with the name only. To older ones it says that they are no members, as after the
    end of a session. aiokafka would then join under the name again, and take it back. Therefore this member first joins
    with its former id. Only if the name is free does it join as a new process.
    """

    leaves: ClassVar[bool] = False
    """Whether it leaves the group when it ends. aiokafka's static members never do."""
    on_fence: ClassVar[Any]
    """A function that is called in the thread of the consumer when another process has taken the name."""
    _former_id = ""
    _group_instance_id: str | None

    def reset_generation(self) -> None:
        self._former_id = self.member_id or self._former_id
        super().reset_generation()

    async def _send_req(self, request: Any) -> Any:
        """Send a request to the coordinator of the group. Stop at an answer that another process has the name."""
        is_new = request.API_KEY == JoinGroupRequest.API_KEY and not request._member_id  # noqa: SLF001 - it has no other name
        if is_new and self._former_id:
            former = copy.copy(request)
            former._member_id = self._former_id  # noqa: SLF001
            answer = await self._check(await super()._send_req(former))
            if errors.for_code(answer.error_code) is not errors.UnknownMemberIdError:
                return answer
            self._former_id = ""
        return await self._check(await super()._send_req(request))

    async def _check(self, answer: Any) -> Any:
        if getattr(answer, "error_code", 0) != _FENCED:
            return answer
        self.on_fence()
        await asyncio.sleep(1.0)  # the process ends, and aiokafka would ask again at once
        raise errors.KafkaError("another process has taken the name of this member")

    async def _maybe_leave_group(self) -> None:
        name = self._group_instance_id
        try:
            if self.leaves:
                self._group_instance_id = None  # otherwise aiokafka sends no request to leave
            await super()._maybe_leave_group()
        finally:
            self._group_instance_id = name


def install_staying() -> None:
    """Make all group members of this process stay."""
    consumer.GroupCoordinator = StayingMember


def install_classic(on_refusal: Callable[[], None]) -> None:
    """Make all group members of this process notice a refusal of their protocol."""
    ClassicMember.on_refusal = staticmethod(on_refusal)
    consumer.GroupCoordinator = ClassicMember


def install_static(on_fence: Callable[[], None], *, leaves: bool) -> None:
    """Make all group members of this process static."""
    StaticMember.on_fence = staticmethod(on_fence)
    StaticMember.leaves = leaves
    consumer.GroupCoordinator = StaticMember
