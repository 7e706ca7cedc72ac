"""The simulated admin client of Kafka. It has the methods that hubbub calls, and no others."""

from types import SimpleNamespace

from tests.worlds.clients import Client


class Admin(Client):
    async def describe_topics(self):
        await self.round_trip()
        return [
            {"topic": name, "partitions": [{"replicas": [1]} for _ in partitions]}
            for name, partitions in self.log.partitions.items()
        ]

    async def describe_configs(self, resources):
        await self.round_trip()
        answers = []
        for resource in resources:
            entries = [(key, value, False, 1, False) for key, value in self.log.settings[resource.name].items()]
            answers.append((0, "", 2, resource.name, entries))
        return [SimpleNamespace(resources=answers)]

    async def find_coordinator(self, group):
        await self.round_trip()

    async def describe_consumer_groups(self, groups):
        await self.round_trip()
        members = [("", member.client_id, "/world", b"", b"") for member in self.world.coordinator.members.values()]
        return [SimpleNamespace(groups=[(0, groups[0], "Stable", "consumer", "", members)])]


async def topic_ids(client, names):
    """Return the id and the number of partitions of each topic, in place of the raw request of hubbub."""
    await client.round_trip()
    log = client.log
    return {name: (log.ids[name], len(log.partitions[name])) for name in names if name in log.partitions}
