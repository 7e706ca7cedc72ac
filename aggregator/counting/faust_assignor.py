"""The assignor of the group. It has Faust's protocol, and the choice of partitions of assignment.py.

Faust's own choice deals all extra partitions out anew at each rebalance. The metadata is Faust's, so members with its
assignor and members with this one work in one group, whoever leads it.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from faust.assignor.client_assignment import ClientAssignment, ClientMetadata
from faust.assignor.partition_assignor import PartitionAssignor

from aggregator.counting.assignment import Claim, assign


class Metadata(ClientMetadata, serializer="json", include_metadata=False, namespace="@AssignmentMetadata"):
    """The metadata of Faust with the number of the assignment, which Faust's assignor ignores."""

    round: int = 0


class Assignor(PartitionAssignor):
    """The assignor. It has the name and version of Faust's, by which the members of a group agree on one."""

    _round = 0

    @property
    def _metadata(self) -> Metadata:
        return Metadata(**super()._metadata.asdict(), round=self._round)

    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Take the assignment that the leader made."""
        super().on_assignment(assignment)
        # A leader with Faust's assignor sends no number.
        self._round = Metadata.loads(self._decompress(assignment.user_data)).round

    def _perform_assignment(
        self, cluster: Any, member_metadata: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        members = {name: Metadata.loads(member.user_data) for name, member in member_metadata.items()}
        self._update_member_urls(members)

        topics = {topic for member in member_metadata.values() for topic in member.subscription}
        counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        # A missing topic has no partitions. Topics with equally many partitions move together.
        present_topics = sorted((topic for topic in topics if counts[topic]), key=lambda topic: (counts[topic], topic))
        groups = [(count, list(group)) for count, group in groupby(present_topics, counts.__getitem__)]

        assignments = {name: ClientAssignment(actives={}, standbys={}) for name in members}
        for count, group in groups:
            shares = assign({name: _claim(member, group) for name, member in members.items()}, count)
            for name, numbers in shares.items():
                assignments[name].actives.update({topic: list(numbers) for topic in group})
        numbered_groups = {topic: number for number, (_, group) in enumerate(groups) for topic in group}
        return self._packed(assignments, numbered_groups, 1 + max(member.round for member in members.values()))

    def _packed(
        self, assignments: dict[str, ClientAssignment], topic_groups: Mapping[str, int], number: int
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Return what the broker hands to each member."""
        changelogs = self._get_changelog_distribution(assignments)
        others = self._get_external_topic_distribution(assignments)
        results = {}
        for name, assignment in assignments.items():
            metadata = Metadata(
                assignment=assignment,
                url=self._member_urls[name],
                changelog_distribution=changelogs,
                external_topic_distribution=others,
                topic_groups=topic_groups,
                round=number,
            )
            topics = sorted(assignment.kafka_protocol_assignment(self._table_manager))
            data = self._compress(metadata.dumps())
            results[name] = ConsumerProtocolMemberAssignment(self.version, topics, data)
        return results


def _claim(member: Metadata, topics: list[str]) -> Claim:
    """Return the partitions that a member has of these topics."""
    numbers = [member.assignment.actives.get(topic, ()) for topic in topics]
    return Claim(frozenset[int]().union(*numbers), member.round)
