"""The chain of lists: each names the hash of the one before, so nobody can rewrite what a device has seen."""

from hubbub.asked.asked_list import AskedError, AskedList


def check_chain(earlier_list: AskedList, newer_lists: list[AskedList]) -> None:
    """Raise an AskedError unless each list follows from the one before it, or is the same as the first."""
    # A device that reads the list that it has gets that list, maybe with more signatures.
    if len(newer_lists) == 1 and newer_lists[0].number == earlier_list.number:
        if newer_lists[0].hash != earlier_list.hash:
            raise AskedError(f"there are two lists with the number {earlier_list.number}")
        return

    for later_list in newer_lists:
        if later_list.number != earlier_list.number + 1:
            raise AskedError(f"list {later_list.number} does not come after list {earlier_list.number}")
        if later_list.application != earlier_list.application:
            raise AskedError(f"list {later_list.number} is of another application than the list before")
        if later_list.previous != earlier_list.hash:
            raise AskedError(f"list {later_list.number} does not name the hash of list {earlier_list.number}")
        earlier_list = later_list
