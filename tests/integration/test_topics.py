"""`hubbub topics` on real brokers: it creates, mends and refuses, says so, and leaves what is right."""

import asyncio
import time
import uuid

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from aggregator.errors import TopicsError
from aggregator.topics import command as topics
from aggregator.topics.command import alter, describe, ensure, verify
from aggregator.topics.layout import INSYNC, MAX_BYTES, MIB, TIMESTAMP, layout
from aggregator.topics.sizes import sizes
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.settings import CHANGELOG, REPORTS, SNAPSHOTS
from oracles.query import load
from tests.brokers import create_topics

ALL = [topic.name for topic in layout("", 1, 1, MIB)]


def fresh(broker):
    return broker.kafka(f"t{uuid.uuid4().hex}.")


def arguments(where, *more):
    embedded = ["--embedded"] if where.embedded else []
    return ["--kafka", where.servers, "--prefix", where.prefix, "--partitions", "3", *embedded, *more]


def there(where):
    """What the broker says of the prefix's topics, without the prefix."""

    async def run():
        async with started(AIOKafkaAdminClient(**client_arguments(where)), where) as admin:
            names = [topic for topic in await admin.list_topics() if topic.startswith(where.prefix)]
            return await describe(admin, names)

    return {name.removeprefix(where.prefix): found for name, found in asyncio.run(run()).items()}


def until_seen(condition):
    """Brokers hear of a change a moment after it is made."""
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def create(where, name, partitions, replication=1, **settings):
    async def run():
        async with started(AIOKafkaAdminClient(**client_arguments(where)), where) as admin:
            await admin.create_topics([NewTopic(where.topic(name), partitions, replication, topic_configs=settings)])

    asyncio.run(run())
    until_seen(lambda: name in there(where))


def spoil(where, name, **settings):
    async def run():
        async with started(AIOKafkaAdminClient(**client_arguments(where)), where) as admin:
            described = await describe(admin, [where.topic(name)])
            await alter(admin, described, {where.topic(name): settings})

    asyncio.run(run())
    until_seen(lambda: settings.items() <= there(where)[name].settings.items())


def test_it_creates_all_topics_and_a_second_run_changes_nothing(broker, capsys):
    where = fresh(broker)
    assert topics.main(arguments(where)) == 0
    said = capsys.readouterr()
    assert [line.split(":")[0] for line in said.out.splitlines()] == [f"created {where.topic(name)}" for name in ALL]
    assert said.err == ""
    found = there(where)
    assert {name: topic.partitions for name, topic in found.items()} == {**dict.fromkeys(ALL, 3), "queries": 1}
    assert {topic.replication for topic in found.values()} == {1}

    assert topics.main(arguments(where)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"right {where.topic(name)}" for name in ALL]
    assert there(where) == found
    assert asyncio.run(verify(where)) == 3


@pytest.mark.parametrize("looks", [2, 1_000])
def test_a_cluster_that_names_no_broker_is_asked_again_and_in_the_end_not_reached(broker, looks, monkeypatch, capsys):
    """Kafka names none of those that it had taken for dead, until they have told it that they live."""
    where, asked, describe_cluster = fresh(broker), [], topics.AIOKafkaAdminClient.describe_cluster

    async def nobody(admin):
        asked.append(admin)
        return {**await describe_cluster(admin), **({"brokers": []} if len(asked) <= looks else {})}

    monkeypatch.setattr(topics.AIOKafkaAdminClient, "describe_cluster", nobody)
    monkeypatch.setattr(topics, "SETTLE", topics.SETTLE if looks == 2 else 0.5)
    assert topics.main(arguments(where)) == (0 if looks == 2 else 3)
    assert len(asked) > 2
    assert ("lists no active broker" in capsys.readouterr().err) == (looks != 2)


def test_a_dry_run_says_what_it_would_do_and_does_nothing(broker, capsys):
    where = fresh(broker)
    assert topics.main(arguments(where, "--dry-run")) == 0
    would = capsys.readouterr().out.splitlines()
    assert there(where) == {}
    assert topics.main(arguments(where)) == 0
    assert [f"would create {line.removeprefix('created ')}" for line in capsys.readouterr().out.splitlines()] == would


def test_two_runs_at_a_time_agree(broker):
    where = fresh(broker)

    async def run():
        await asyncio.gather(ensure(where, 3), ensure(where, 3))

    asyncio.run(run())
    assert asyncio.run(verify(where)) == 3


def test_another_number_of_partitions_is_refused_and_nothing_is_changed(broker, capsys):
    where = fresh(broker)
    create(where, REPORTS, 2)
    assert topics.main(arguments(where)) == 4
    said = capsys.readouterr()
    name = where.topic(REPORTS)
    assert said.err.startswith(f"hubbub topics: {name}: has 2 partitions, not 3; ")
    assert "run `hubbub topics --partitions 2`" in said.err
    assert said.out == ""
    assert there(where).keys() == {REPORTS}

    create(where, SNAPSHOTS, 5)
    assert topics.main([*arguments(where), "--partitions", "2"]) == 4  # the last one given holds
    assert "snapshots: has 5 partitions, not 2; " in capsys.readouterr().err
    assert there(where).keys() == {REPORTS, SNAPSHOTS}


def test_a_worker_refuses_topics_that_are_missing(broker):
    where = fresh(broker)
    with pytest.raises(TopicsError, match=r"reports: there is no such topic; run `hubbub topics`") as refused:
        asyncio.run(verify(where))
    assert refused.value.exit_code == 4


def test_a_worker_waits_a_moment_for_topics_that_its_broker_has_not_heard_of(broker):
    where = fresh(broker)

    async def run():
        verifying = asyncio.create_task(verify(where))
        await asyncio.sleep(0.5)
        await ensure(where, 3)
        return await verifying

    assert asyncio.run(run()) == 3


def test_settings_stand_as_the_guarantees_need_them(kafka):
    found = there(create_topics(kafka, 3, max_frame=2 * MIB))
    assert found[REPORTS].settings[TIMESTAMP] == "LogAppendTime"
    assert int(found[REPORTS].settings[MAX_BYTES]) > 2 * MIB
    assert found[CHANGELOG].settings["cleanup.policy"] == "compact"
    assert {topic.settings[INSYNC] for topic in found.values()} == {"1"}


def test_wrong_settings_are_mended_and_a_topic_s_own_others_kept(kafka, capsys):
    where = create_topics(kafka, 3)
    right = there(where)
    spoil(where, REPORTS, **{TIMESTAMP: "CreateTime", "retention.ms": "1234567"})
    spoil(where, CHANGELOG, **{"cleanup.policy": "delete", "segment.ms": "7654321"})
    with pytest.raises(TopicsError, match=r"message.timestamp.type is CreateTime, but must be LogAppendTime"):
        asyncio.run(verify(where))

    lines = [
        f"{where.topic(REPORTS)}: {TIMESTAMP} from CreateTime to LogAppendTime",
        f"{where.topic(CHANGELOG)}: cleanup.policy from delete to compact",
    ]
    spoilt = there(where)
    assert topics.main(arguments(where, "--dry-run")) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if not line.startswith("right")] == [
        f"would set {line}" for line in lines
    ]
    assert there(where) == spoilt

    assert topics.main(arguments(where)) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if not line.startswith("right")] == [
        f"set {line}" for line in lines
    ]
    mended = there(where)
    assert mended[REPORTS].settings == {**right[REPORTS].settings, "retention.ms": "1234567"}
    assert mended[CHANGELOG].settings == {**right[CHANGELOG].settings, "segment.ms": "7654321"}
    assert asyncio.run(verify(where)) == 3


def test_what_kafka_refuses_to_set_is_said_with_what_hangs_on_it_and_all_else_is_set(kafka, capsys):
    where = fresh(kafka)
    create(where, SNAPSHOTS, 3, 1, **{"max.compaction.lag.ms": "60000"})  # below what hubbub asks for as the least
    assert topics.main(arguments(where)) == 4
    said = capsys.readouterr().err
    assert f"{where.topic(SNAPSHOTS)}: Kafka refuses min.compaction.lag.ms=120000: " in said
    assert "it is 0: a worker that recovers may miss records that compaction removes meanwhile" in said
    found = there(where)
    assert found.keys() == set(ALL)
    assert found[SNAPSHOTS].settings[TIMESTAMP] == "LogAppendTime"
    assert found[SNAPSHOTS].settings["cleanup.policy"] == "compact"
    assert found[SNAPSHOTS].settings["max.compaction.lag.ms"] == "60000"
    with pytest.raises(TopicsError, match=r"min.compaction.lag.ms is 0, but must be 120000"):
        asyncio.run(verify(where))


def test_messages_are_as_large_as_the_queries_need_them(kafka, tmp_path, capsys):
    where, file = fresh(kafka), tmp_path / "hubbub.toml"
    file.write_text('[queries.page]\ndomain = 1000\noracle = "grr"\nanswers = "once"\nepsilon = 1.0\npane = "10s"\n')
    assert topics.main([*arguments(where), "--queries", str(file)]) == 0
    few = {name: int(topic.settings[MAX_BYTES]) for name, topic in there(where).items()}
    assert max(few.values()) < 8 * MIB  # which every service takes
    file.write_text(file.read_text().replace("1000", "4000000"))
    with pytest.raises(TopicsError, match=r"max.message.bytes is"):
        asyncio.run(verify(where, sizes=sizes(load(file).values())))
    assert topics.main([*arguments(where), "--queries", str(file)]) == 0
    assert int(there(where)[SNAPSHOTS].settings[MAX_BYTES]) > 32_000_000
    asyncio.run(verify(where, sizes=sizes(load(file).values())))


def test_more_replicas_than_brokers_are_refused(kafka, capsys):
    where = fresh(kafka)
    assert topics.main(arguments(where, "--replication", "3")) == 4
    assert "1 broker cannot hold 3 replicas; start more brokers, or use --replication 1" in capsys.readouterr().err
    assert there(where) == {}


def test_a_login_that_fails_is_exit_code_3(kafka, capsys, monkeypatch):
    login = {"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SASL_MECHANISM": "SCRAM-SHA-512", "USERNAME": "nobody"}
    for name, value in {**login, "PASSWORD": "guessed-secret"}.items():
        monkeypatch.setenv(f"HUBBUB_KAFKA_{name}", value)
    assert topics.main(["--kafka", kafka.scram]) == 3
    said = capsys.readouterr().err
    assert "uthentication failed" in said
    assert "guessed-secret" not in said


def test_on_three_brokers_all_is_kept_thrice_and_two_must_have_it(three_brokers):
    where = create_topics(three_brokers, 3)
    assert asyncio.run(verify(where)) == 3
    until_seen(lambda: there(where).keys() == set(ALL))  # another broker hears of new topics a moment later
    found = there(where)
    assert {topic.replication for topic in found.values()} == {3}
    assert {topic.settings[INSYNC] for topic in found.values()} == {"2"}
    assert {topic.settings["unclean.leader.election.enable"] for topic in found.values()} == {"false"}
    assert not [line for line in asyncio.run(ensure(where, 3)) if not line.startswith("right")]


def test_on_three_brokers_a_topic_with_one_replica_is_refused_unless_that_is_said(three_brokers):
    where = fresh(three_brokers)
    create(where, REPORTS, 3, 1, **{INSYNC: "1"})
    with pytest.raises(TopicsError, match=r"reports: has 1 of 3 replicas"):
        asyncio.run(ensure(where, 3))
    asyncio.run(ensure(where, 3, 1))
    until_seen(lambda: there(where).keys() == set(ALL))
    assert {topic.replication for topic in there(where).values()} == {1}
