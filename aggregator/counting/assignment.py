"""Which worker gets which partitions. Few of them move, since a new owner recovers each partition from the changelog.

Each of W workers gets floor(P / W) or ceil(P / W) of P partitions. A rebalance without a change of members moves none.
One that joins or leaves moves at most ceil(P / W). Exactness does not depend on the assignment.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Claim(NamedTuple):
    """The partitions of a worker, as it says when it joins again."""

    partitions: frozenset[int] = frozenset()
    round: int = 0
    """The number of the assignment that gave them. Each assignment has a greater number than those before."""


def assign(claims: Mapping[str, Claim], partitions: int) -> dict[str, list[int]]:
    """Return the partitions of each worker, ascending."""
    owned_numbers = _owned_numbers(claims, partitions)
    capacities = _capacities(owned_numbers, partitions)
    shares = {name: numbers[: capacities[name]] for name, numbers in owned_numbers.items()}

    vacancies = {name: capacities[name] - len(numbers) for name, numbers in shares.items()}
    remaining_numbers = set(range(partitions)).difference(*shares.values())
    for number, name in zip(sorted(remaining_numbers), _turns(vacancies), strict=True):
        shares[name].append(number)
    return {name: sorted(numbers) for name, numbers in shares.items()}


def _owned_numbers(claims: Mapping[str, Claim], partitions: int) -> dict[str, list[int]]:
    """Return the partitions that each worker owns, ascending. Each has one owner at most."""
    owners: dict[int, str] = {}
    # A frozen worker still claims what others own by now. If its round is unknown, the larger share is likelier.
    for name in sorted(claims, key=lambda name: (claims[name].round, len(claims[name].partitions), name)):
        owners.update(dict.fromkeys(claims[name].partitions, name))

    owned_numbers: dict[str, list[int]] = {name: [] for name in claims}
    for number in sorted(owners):
        # A claim may name partitions of a former topic with this name.
        if number < partitions:
            owned_numbers[owners[number]].append(number)
    return owned_numbers


def _capacities(owned_numbers: Mapping[str, list[int]], partitions: int) -> dict[str, int]:
    """Return the size of each worker's share."""
    least, larger_shares = divmod(partitions, len(owned_numbers))
    # The workers with most partitions get the larger shares, so that they give fewer away.
    names = sorted(owned_numbers, key=lambda name: (-len(owned_numbers[name]), name))
    return {name: least + (place < larger_shares) for place, name in enumerate(names)}


def _turns(vacancies: Mapping[str, int]) -> Iterator[str]:
    """Yield a worker for each vacancy, in turns, so that neighbouring partitions go to several workers."""
    for turn in range(max(vacancies.values())):
        yield from (name for name in sorted(vacancies) if vacancies[name] > turn)
