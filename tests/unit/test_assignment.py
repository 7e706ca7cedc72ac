"""The shares of a group's members: even, and with few moves. Members with Faust's own assignor take part in a roll."""

import asyncio
from collections import Counter
from math import ceil
from random import Random
from types import SimpleNamespace

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from faust.assignor.partition_assignor import PartitionAssignor

from aggregator.counting.assignment import Claim, assign
from aggregator.counting.faust_app import build_app
from aggregator.counting.faust_assignor import Assignor
from hubbub.kafka.settings import Kafka
from tests.worlds.mutant import Mutant

pytestmark = pytest.mark.usefixtures("unpatched_libraries")
MODULE = "aggregator.counting.assignment:"
TOPICS = {"hubbub.reports", "hubbub.worker-tallies-changelog"}


def moves(before, after):
    """Return how many partitions have another owner than before."""
    owners = {number: name for name, numbers in before.items() for number in numbers}
    return sum(owners.get(number) != name for name, numbers in after.items() for number in numbers)


def fewest_moves(before, after):
    """Return how many partitions must move for shares of these sizes, whoever gets which size."""
    sizes = sorted((len(before.get(name, ())) for name in after), reverse=True)
    new_sizes = sorted(map(len, after.values()), reverse=True)
    return sum(new_sizes) - sum(map(min, sizes, new_sizes))


def fault_of_life(seed):
    """Return what a group does wrong whose members join, leave, freeze and come back, or None."""
    random = Random(seed)
    partitions = random.choice([1, 7, 12, 64, 100])
    names = (f"{random.randrange(1 << 32):08x}" for _ in range(1_000))
    present = {next(names): Claim() for _ in range(random.randint(1, 12))}
    away = {}
    shares = None
    for number in range(1, 30):
        # A life begins with the first assignment, which moves all.
        event = "none" if shares is None else random.choice(["none", "join", "leave", "freeze", "return"])
        if event == "join":
            present[next(names)] = Claim()
        elif event in ("leave", "freeze") and len(present) > 1:
            name = random.choice(sorted(present))
            claim = present.pop(name)
            away |= {name: claim} if event == "freeze" else {}
        elif event == "return" and away:
            name = random.choice(sorted(away))
            present[name] = away.pop(name)
        else:
            event = "none"

        results = assign(present, partitions)
        sizes = [len(numbers) for numbers in results.values()]
        if sorted(number for numbers in results.values() for number in numbers) != [*range(partitions)]:
            return "a partition has not one owner"
        if max(sizes) - min(sizes) > 1:
            return "shares are uneven"
        most = 0 if event == "none" else ceil(partitions / len(present))
        if shares is not None and moves(shares, results) > most:
            return f"{event} moves {moves(shares, results)} of {partitions}, {len(present)} members"
        if shares is not None and moves(shares, results) > fewest_moves(shares, results):
            return f"{event} moves more than it must"
        shares = results
        present = {name: Claim(frozenset(numbers), number) for name, numbers in results.items()}
    return None


LIVES = 150


def test_shares_are_even_and_few_partitions_move():
    assert [(seed, fault) for seed in range(LIVES) if (fault := fault_of_life(seed))] == []


MUTANTS = (
    Mutant("larger shares by name", MODULE + "_capacities", "(-len(owned_numbers[name]), name)", "name", 2),
    Mutant(
        "larger shares to those who own least",
        MODULE + "_capacities",
        "-len(owned_numbers[name])",
        "len(owned_numbers[name])",
        2,
    ),
    Mutant("claims without rounds", MODULE + "_owned_numbers", "claims[name].round, ", "0, ", 2),
    Mutant("oldest claim", MODULE + "_owned_numbers", "claims[name].round, ", "-claims[name].round, ", 2),
    Mutant("larger shares to the last", MODULE + "_capacities", "place <", "len(names) - 1 - place <", 2),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_lives_find_a_wrong_rule(mutant):
    with mutant.applied():
        assert any(map(fault_of_life, range(LIVES)))


def test_a_claim_of_a_topic_that_had_more_partitions_is_cut():
    assert assign({"a": Claim(frozenset({0, 9}), 3), "b": Claim()}, 2) == {"a": [0], "b": [1]}


@pytest.mark.parametrize(("workers", "new_workers"), [(64, 0), (100, 1)])
def test_an_uneven_share_of_a_thousand_partitions_does_not_move(workers, new_workers):
    """Faust's assignor moves 38 of 1,000 at 64 workers although nobody joins, and up to 100 if the 101st joins."""
    claims = {f"{number:03}": Claim() for number in range(workers)}
    shares = assign(claims, 1_000)
    claims = {name: Claim(frozenset(numbers), 1) for name, numbers in shares.items()}
    claims |= {f"new-{number}": Claim() for number in range(new_workers)}
    assert moves(shares, assign(claims, 1_000)) <= new_workers * ceil(1_000 / (workers + new_workers))


class Group:
    """A group of assignors, and the bytes that the broker carries between them."""

    def __init__(self, app, partitions):
        self.app = app
        self.members = {}
        self.cluster = SimpleNamespace(partitions_for_topic=lambda topic: set(range(partitions)))

    def join(self, name, kind):
        self.members[name] = kind(self.app)

    def rebalance(self, leader):
        """Let a member lead, and return the partitions of each member."""
        messages = {name: member.metadata(TOPICS).encode() for name, member in self.members.items()}
        metadata = {name: ConsumerProtocolMemberMetadata.decode(data) for name, data in messages.items()}
        shares = {}
        for name, assignment in self.members[leader].assign(self.cluster, metadata).items():
            member = self.members[name]
            member.on_assignment(ConsumerProtocolMemberAssignment.decode(assignment.encode()))
            by_topic = {
                topic: [tp.partition for tp in member.assigned_actives() if tp.topic == topic] for topic in TOPICS
            }
            reports, changelog = (sorted(numbers) for numbers in by_topic.values())
            assert reports == changelog
            shares[name] = reports
        return shares


@pytest.fixture
def group():
    async def make():
        app = build_app(Kafka(), 100, 1 << 20)
        app.finalize()
        app.consumer._thread.thread_loop.close()
        return Group(app, 100)

    return asyncio.run(make())


def check_complete(shares):
    assert Counter(number for numbers in shares.values() for number in numbers) == Counter(range(100))


def test_a_group_keeps_its_shares_whoever_leads_and_gives_a_new_member_its_own(group):
    for name in "abcdefg":
        group.join(name, Assignor)
    first_shares = group.rebalance("a")
    check_complete(first_shares)
    assert group.rebalance("b") == first_shares
    group.join("h", Assignor)
    shares = group.rebalance("c")
    check_complete(shares)
    assert moves(first_shares, shares) == len(shares["h"]) == 12


def test_a_roll_from_the_assignor_of_faust_and_back_works_whoever_leads(group):
    for name in "abcde":
        group.join(name, PartitionAssignor)
    check_complete(group.rebalance("a"))
    for kind in (Assignor, PartitionAssignor):
        for name in "abcde":
            del group.members[name]
            check_complete(group.rebalance(next(iter(group.members))))
            group.join(name, kind)
            for leader in list(group.members):
                check_complete(group.rebalance(leader))


def test_a_returning_worker_that_others_have_replaced_takes_back_a_share_alone(group):
    for name in "abcd":
        group.join(name, Assignor)
    group.rebalance("a")
    frozen = group.members.pop("b")
    shares = group.rebalance("a")
    group.members["b"] = frozen
    results = group.rebalance("b")
    check_complete(results)
    assert moves(shares, results) == 25
