"""The rule by which a device accepts a list. It believes no server, and never goes back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hubbub.asked.asked_list import AskedError, AskedList
from hubbub.asked.chain import check_chain
from hubbub.asked.document import document_of, hash_of
from hubbub.asked.signatures import check_signed, read_public_keys, signers
from oracles.errors import ParameterError

MOST_STEPS = 1000
"""Lists that a device reads at most to come from its own to the newest one."""


@dataclass(frozen=True)
class Trust:
    """What an application knows of its lists: its own name, the public keys of people, and how many must sign."""

    application: str
    keys: tuple[str, ...]
    threshold: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", read_public_keys(self.keys))
        if type(self.threshold) is not int or not 1 <= self.threshold <= len(self.keys):
            raise ParameterError(f"threshold must be from 1 to {len(self.keys)}, the number of keys")

    def first_needed(self, last_list: AskedList | None, newest_list: AskedList) -> int:
        """Return the number of the first list that a device must read to follow the newest one, maybe that itself."""
        if last_list is None or not self.is_signed(last_list):
            return newest_list.number
        if newest_list.number > last_list.number + MOST_STEPS:
            raise AskedError(
                f"list {newest_list.number} is more than {MOST_STEPS} lists behind list {last_list.number}"
            )
        return min(last_list.number + 1, newest_list.number)

    def accept(self, last_list: AskedList | None, newer_lists: list[AskedList], time_s: float) -> AskedList:
        """Return the newest list of `newer_lists`, which follow each other, if it may replace the last one.

        Raise an AskedError otherwise. Only the newest list needs signatures and a time: those before it are bound by
        the hash that it names.
        """
        newest_list = newer_lists[-1]
        if newest_list.application != self.application:
            raise AskedError(f"the list is of application {newest_list.application!r}, not of {self.application!r}")
        check_signed(newest_list, self.keys, self.threshold)
        if newest_list.expires <= time_s:
            raise AskedError(f"list {newest_list.number} has expired")

        if last_list is not None and newest_list.number < last_list.number:
            raise AskedError(
                f"list {newest_list.number} is older than list {last_list.number}, which this device has seen"
            )
        # A release with new keys begins anew, since nobody can follow a list that stolen keys signed.
        if last_list is not None and self.is_signed(last_list):
            check_chain(last_list, newer_lists)
        return newest_list

    def is_signed(self, signed_list: AskedList) -> bool:
        """Whether enough of the present keys signed a list."""
        return len(self.signers(signed_list)) >= self.threshold

    def signers(self, signed_list: AskedList) -> set[str]:
        """Return those of the present keys that signed a list."""
        return signers(signed_list, self.keys)

    def check(self, item: Mapping[str, Any], signed_list: AskedList, time_s: float) -> None:
        """Raise an AskedError unless the document of an item of GET /v1/queries stands in the list."""
        if signed_list.expires <= time_s:
            raise AskedError(f"list {signed_list.number} has expired")
        name = str(item.get("name"))
        if not signed_list.allows(name, hash_of(document_of(item))):
            raise AskedError(f"the definition of {name!r} is not in list {signed_list.number}")
