"""`hubbub topics` on real brokers. It creates topics, corrects settings, reports both, and refuses other faults."""

import asyncio
import logging
import time
import uuid

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from aggregator.errors import TopicsError
from aggregator.topics import command as topics
from aggregator.topics.broker_topics import alter, describe
from aggregator.topics.command import ensure, verify
from aggregator.topics.layout import INSYNC, MAX_BYTES, MIB, TIMESTAMP, layout
from aggregator.topics.sizes import sizes
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.settings import CHANGELOG, REPORTS, SNAPSHOTS
from oracles.query import load
from tests.brokers import create_topics
from tests.queries import make_text
from tests.slowness import patience

ALL = [topic.name for topic in layout("", 1, 1, MIB)]


def fresh(broker):
    return broker.kafka(f"t{uuid.uuid4().hex}.")


def arguments(target, *more):
    embedded = ["--embedded"] if target.embedded else []
    return ["--kafka", target.servers, "--prefix", target.prefix, "--partitions", "3", *embedded, *more]


def existing_topics(target):
    """Return the topics of the prefix on the broker, by name without the prefix."""

    async def run():
        async with started(AIOKafkaAdminClient(**client_arguments(target)), target) as admin:
            names = [topic for topic in await admin.list_topics() if topic.startswith(target.prefix)]
            return await describe(admin, names)

    return {name.removeprefix(target.prefix): description for name, description in asyncio.run(run()).items()}


def until_seen(condition):
    """Wait until the brokers know of a change, which takes a moment."""
    deadline = time.monotonic() + patience(10)
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def create(where, name, partitions, replication=1, **settings):
    async def run():
        async with started(AIOKafkaAdminClient(**client_arguments(where)), where) as admin:
            await admin.create_topics([NewTopic(where.topic(name), partitions, replication, topic_configs=settings)])

    asyncio.run(run())
    until_seen(lambda: name in existing_topics(where))


def spoil(where, name, **settings):
    async def run():
        async with started(AIOKafkaAdminClient(**client_arguments(where)), where) as admin:
            descriptions = await describe(admin, [where.topic(name)])
            await alter(admin, descriptions, {where.topic(name): settings})

    asyncio.run(run())
    until_seen(lambda: settings.items() <= existing_topics(where)[name].settings.items())


def test_it_creates_all_topics_and_a_second_run_changes_nothing(broker, capsys, monkeypatch):
    # A broker may not lead a new partition yet. Then aiokafka warns and sends again.
    monkeypatch.setattr(logging.getLogger("aiokafka"), "handlers", [logging.NullHandler()])
    target = fresh(broker)
    assert topics.main(arguments(target)) == 0
    output = capsys.readouterr()
    assert [line.split(":")[0] for line in output.out.splitlines()] == [f"created {target.topic(name)}" for name in ALL]
    assert output.err == ""
    existing = existing_topics(target)
    # The second partition of `queries` is the fence, which an embedded broker does not need.
    numbers = {**dict.fromkeys(ALL, 3), "clocks": 1, "queries": 1 if target.embedded else 2}
    assert {name: topic.partitions for name, topic in existing.items()} == numbers
    assert {topic.replication for topic in existing.values()} == {1}

    assert topics.main(arguments(target)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"right {target.topic(name)}" for name in ALL]
    assert existing_topics(target) == existing
    assert asyncio.run(verify(target)) == 3


@pytest.mark.parametrize("looks", [2, 1_000])
def test_a_cluster_that_lists_no_broker_is_asked_again_and_is_an_error_in_the_end(broker, looks, monkeypatch, capsys):
    """Kafka omits brokers that it took for dead until they report again."""
    target = fresh(broker)
    requests = []
    describe_cluster = topics.AIOKafkaAdminClient.describe_cluster

    async def nobody(admin):
        requests.append(admin)
        return {**await describe_cluster(admin), **({"brokers": []} if len(requests) <= looks else {})}

    monkeypatch.setattr(topics.AIOKafkaAdminClient, "describe_cluster", nobody)
    monkeypatch.setattr(topics, "SETTLE", topics.SETTLE if looks == 2 else patience(1.0))
    assert topics.main(arguments(target)) == (0 if looks == 2 else 3)
    assert len(requests) > 2
    assert ("lists no active broker" in capsys.readouterr().err) == (looks != 2)


def test_a_dry_run_prints_its_steps_and_changes_nothing(broker, capsys):
    target = fresh(broker)
    assert topics.main(arguments(target, "--dry-run")) == 0
    would = capsys.readouterr().out.splitlines()
    assert existing_topics(target) == {}
    assert topics.main(arguments(target)) == 0
    assert [f"would create {line.removeprefix('created ')}" for line in capsys.readouterr().out.splitlines()] == would


def test_two_runs_at_the_same_time_agree(broker):
    target = fresh(broker)

    async def run():
        await asyncio.gather(ensure(target, 3), ensure(target, 3))

    asyncio.run(run())
    assert asyncio.run(verify(target)) == 3


def test_another_number_of_partitions_is_an_error_and_changes_nothing(broker, capsys):
    target = fresh(broker)
    create(target, REPORTS, 2)
    assert topics.main(arguments(target)) == 4
    output = capsys.readouterr()
    name = target.topic(REPORTS)
    assert output.err.startswith(f"hubbub topics: {name}: has 2 partitions, not 3; ")
    assert "run `hubbub topics --partitions 2`" in output.err
    assert output.out == ""
    assert existing_topics(target).keys() == {REPORTS}

    create(target, SNAPSHOTS, 5)
    assert topics.main([*arguments(target), "--partitions", "2"]) == 4  # the last one given holds
    assert "snapshots: has 5 partitions, not 2; " in capsys.readouterr().err
    assert existing_topics(target).keys() == {REPORTS, SNAPSHOTS}


def test_a_wrong_option_brings_no_advice_to_delete(broker, capsys):
    target = fresh(broker)
    assert topics.main(arguments(target)) == 0
    before = existing_topics(target)
    capsys.readouterr()
    assert topics.main([*arguments(target), "--partitions", "6"]) == 4
    output = capsys.readouterr()
    [line] = output.err.splitlines()
    assert line.startswith(f"hubbub topics: {target.topic(REPORTS)}: has 3 partitions, not 6; ")
    assert line.endswith("run `hubbub topics --partitions 3`")
    assert "delete" not in output.err + output.out
    assert {name: topic.partitions for name, topic in existing_topics(target).items()} == {
        name: topic.partitions for name, topic in before.items()
    }


def test_without_the_option_the_number_is_that_of_the_reports(broker, capsys):
    target = fresh(broker)
    assert topics.main([*arguments(target), "--partitions", "5"]) == 0
    capsys.readouterr()
    without = [word for word in arguments(target) if word not in {"--partitions", "3"}]
    assert topics.main(without) == 0
    assert all(line.startswith("right ") for line in capsys.readouterr().out.splitlines())
    assert existing_topics(target)[SNAPSHOTS].partitions == 5


def test_advice_to_delete_says_first_what_is_lost(broker, capsys):
    target = fresh(broker)
    create(target, REPORTS, 2)
    create(target, SNAPSHOTS, 5)
    assert topics.main([*arguments(target), "--partitions", "2"]) == 4
    advice = capsys.readouterr().err.partition("otherwise ")[2]
    assert advice.startswith("estimates and alerts are lost by this, and reports are not: run `hubbub doctor` first")


def test_a_worker_refuses_topics_that_are_missing(broker):
    target = fresh(broker)
    with pytest.raises(TopicsError, match=r"reports: there is no such topic; run `hubbub topics`") as refused:
        asyncio.run(verify(target))
    assert refused.value.exit_code == 4


def test_a_worker_waits_a_moment_for_topics_that_its_broker_does_not_know_yet(broker):
    target = fresh(broker)

    async def run():
        verifying = asyncio.create_task(verify(target))
        await asyncio.sleep(0.5)
        await ensure(target, 3)
        return await verifying

    assert asyncio.run(run()) == 3


def test_topics_have_the_settings_that_the_guarantees_need(kafka):
    existing = existing_topics(create_topics(kafka, 3, max_frame=2 * MIB))
    assert existing[REPORTS].settings[TIMESTAMP] == "LogAppendTime"
    assert int(existing[REPORTS].settings[MAX_BYTES]) > 2 * MIB
    assert existing[CHANGELOG].settings["cleanup.policy"] == "compact"
    assert {topic.settings[INSYNC] for topic in existing.values()} == {"1"}


def test_wrong_settings_are_corrected_and_other_settings_remain(kafka, capsys):
    target = create_topics(kafka, 3)
    right = existing_topics(target)
    spoil(target, REPORTS, **{TIMESTAMP: "CreateTime", "retention.ms": "1234567"})
    spoil(target, CHANGELOG, **{"cleanup.policy": "delete", "segment.ms": "7654321"})
    with pytest.raises(TopicsError, match=r"message.timestamp.type is CreateTime, but must be LogAppendTime"):
        asyncio.run(verify(target))

    lines = [
        f"{target.topic(REPORTS)}: {TIMESTAMP} from CreateTime to LogAppendTime",
        f"{target.topic(CHANGELOG)}: cleanup.policy from delete to compact",
    ]
    spoilt = existing_topics(target)
    assert topics.main(arguments(target, "--dry-run")) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if not line.startswith("right")] == [
        f"would set {line}" for line in lines
    ]
    assert existing_topics(target) == spoilt

    assert topics.main(arguments(target)) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if not line.startswith("right")] == [
        f"set {line}" for line in lines
    ]
    existing = existing_topics(target)
    assert existing[REPORTS].settings == {**right[REPORTS].settings, "retention.ms": "1234567"}
    assert existing[CHANGELOG].settings == {**right[CHANGELOG].settings, "segment.ms": "7654321"}
    assert asyncio.run(verify(target)) == 3


def test_a_setting_that_kafka_refuses_is_reported_with_its_consequence_and_the_others_are_set(kafka, capsys):
    target = fresh(kafka)
    create(target, SNAPSHOTS, 3, 1, **{"max.compaction.lag.ms": "60000"})  # below what hubbub asks for as the least
    assert topics.main(arguments(target)) == 4
    output = capsys.readouterr().err
    assert f"{target.topic(SNAPSHOTS)}: Kafka refuses min.compaction.lag.ms=120000: " in output
    assert "it is 0: a worker that recovers may miss records that compaction removes meanwhile" in output
    existing = existing_topics(target)
    assert existing.keys() == set(ALL)
    assert existing[SNAPSHOTS].settings[TIMESTAMP] == "LogAppendTime"
    assert existing[SNAPSHOTS].settings["cleanup.policy"] == "compact"
    assert existing[SNAPSHOTS].settings["max.compaction.lag.ms"] == "60000"
    with pytest.raises(TopicsError, match=r"min.compaction.lag.ms is 0, but must be 120000"):
        asyncio.run(verify(target))


def test_the_message_size_is_large_enough_for_the_queries(kafka, tmp_path, capsys):
    target = fresh(kafka)
    file = tmp_path / "hubbub.toml"
    file.write_text(make_text("page", domain=1000, oracle="grr", answers="once"))
    assert topics.main([*arguments(target), "--queries", str(file)]) == 0
    few = {name: int(topic.settings[MAX_BYTES]) for name, topic in existing_topics(target).items()}
    assert max(few.values()) < 8 * MIB  # which every service takes
    file.write_text(file.read_text().replace("1000", "4000000"))
    with pytest.raises(TopicsError, match=r"max.message.bytes is"):
        asyncio.run(verify(target, sizes=sizes(load(file).values())))
    assert topics.main([*arguments(target), "--queries", str(file)]) == 0
    assert int(existing_topics(target)[SNAPSHOTS].settings[MAX_BYTES]) > 32_000_000
    asyncio.run(verify(target, sizes=sizes(load(file).values())))


def test_more_replicas_than_brokers_are_refused(kafka, capsys):
    target = fresh(kafka)
    assert topics.main(arguments(target, "--replication", "3")) == 4
    assert "1 broker cannot hold 3 replicas; start more brokers, or use --replication 1" in capsys.readouterr().err
    assert existing_topics(target) == {}


def test_a_login_that_fails_is_exit_code_3(kafka, capsys, monkeypatch):
    login = {"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SASL_MECHANISM": "SCRAM-SHA-512", "USERNAME": "nobody"}
    for name, value in {**login, "PASSWORD": "guessed-secret"}.items():
        monkeypatch.setenv(f"HUBBUB_KAFKA_{name}", value)
    assert topics.main(["--kafka", kafka.scram]) == 3
    output = capsys.readouterr().err
    assert "uthentication failed" in output
    assert "guessed-secret" not in output


def test_three_brokers_have_three_replicas_and_two_must_acknowledge(three_brokers):
    target = create_topics(three_brokers, 3)
    assert asyncio.run(verify(target)) == 3
    until_seen(lambda: existing_topics(target).keys() == set(ALL))  # another broker hears of new topics a moment later
    existing = existing_topics(target)
    assert {topic.replication for topic in existing.values()} == {3}
    assert {topic.settings[INSYNC] for topic in existing.values()} == {"2"}
    assert {topic.settings["unclean.leader.election.enable"] for topic in existing.values()} == {"false"}
    assert not [line for line in asyncio.run(ensure(target, 3)) if not line.startswith("right")]


def test_on_three_brokers_one_replica_is_an_error_unless_an_option_allows_it(three_brokers):
    target = fresh(three_brokers)
    create(target, REPORTS, 3, 1, **{INSYNC: "1"})
    with pytest.raises(TopicsError, match=r"reports: has 1 of 3 replicas"):
        asyncio.run(ensure(target, 3))
    asyncio.run(ensure(target, 3, 1))
    until_seen(lambda: existing_topics(target).keys() == set(ALL))
    assert {topic.replication for topic in existing_topics(target).values()} == {1}
