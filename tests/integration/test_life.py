"""The steps of docs/life.md under load: credentials, file revisions and editions, another prefix, another cluster.

No report is lost.
"""

import asyncio
import os
import re
import signal
import threading
import time
from hashlib import sha256

import pytest
import trustme

from aggregator.plan import check as plan
from aggregator.reading.audit import command as audit
from hubbub.kafka.rights import ALL, RIGHTS
from tests.boards import Board
from tests.integration.gateways import OTHER, TOKEN, Gateway
from tests.integration.loads import load
from tests.integration.queries import PATIENT
from tests.integration.workers import Place, until
from tests.queries import LIVE, make_text

OPEN = re.sub("oracle = .*\n", "", PATIENT)
"""A query that leaves its oracle and its noise to the edition of the file."""
NEW = make_text("new", LIVE, domain=8, epsilon=2.0, lateness="10s")


def wait_for_more(reports, count):
    """Wait until a load has sent so many reports more."""
    begin = reports()
    until(lambda: reports() >= begin + count)


def check(place):
    """Check that all finals are right, byte for byte, by our own count and by the audit."""
    verdict = place.verdict()
    assert verdict.exact, verdict
    # The window `all` goes on for a while, and a busy worker may publish its next final after the audit.
    until(lambda: audit.main(["--kafka", place.kafka.servers, "--prefix", place.kafka.prefix]) == 0)
    return verdict


@pytest.mark.long
def test_the_user_and_the_authority_of_kafka_change_under_load(secured_kafka, tmp_path):
    """Two workers log in by certificates. A new user replaces the old one, then they trust a second authority."""
    with Place(secured_kafka, tmp_path, PATIENT) as place:

        def login(name):
            prefix = place.kafka.prefix
            rights = [(r.operation, r.kind, prefix + ("*" if r.of == ALL else r.of)) for r in RIGHTS["worker"]]
            asyncio.run(secured_kafka.allow(name, *rights))
            return secured_kafka.login("mutual", name, prefix)

        def roll(**env):
            for index, worker in enumerate(workers):
                worker.stop()
                workers[index] = place.start(**env).ready()

        authorities = tmp_path / "authorities.pem"
        authorities.write_bytes(secured_kafka.authority.cert_pem.bytes() + trustme.CA().cert_pem.bytes())
        earlier_login = login("before")
        later_login = login("after")
        with load(place, place.queries.values()) as reports:
            workers = [place.start(**earlier_login).ready() for _ in range(2)]
            roll(**later_login)
            roll(**{**later_login, "HUBBUB_KAFKA_CA_FILE": str(authorities)})
            wait_for_more(reports, 90)
        assert check(place).reports > 50
        assert all(worker.running for worker in workers)


def tokens(*texts):
    hashes = ", ".join(f'"{sha256(text.encode()).hexdigest()}"' for text in texts)
    return f"[tokens.app]\nsha256 = [{hashes}]\n"


def test_the_token_of_a_gateway_changes_under_load(kafka, tmp_path):
    """The file has both tokens, while clients change from one to the other. Then it has the new one alone."""
    with Place(kafka, tmp_path, PATIENT) as place:
        file = tmp_path / "tokens.toml"
        accepted = []
        over = threading.Event()
        present = [TOKEN]
        file.write_text(tokens(TOKEN))
        place.start().ready()
        with Gateway(place, "--port", "0", "--tokens", str(file)) as gateway:

            def send():
                number = 0
                while not over.wait(0.05):
                    number += 1
                    frame = place.frame("page", [0, 1])
                    accepted.append(gateway.post(frame, present[0], key=f"request-{number:016}").status)

            thread = threading.Thread(target=send)
            thread.start()
            file.write_text(tokens(TOKEN, OTHER))
            until(lambda: gateway.post(b"", OTHER, key="k" * 16).status != 401)
            present[0] = OTHER
            requests = len(accepted)
            until(lambda: len(accepted) > requests + 1)  # the request under way may have the old token
            file.write_text(tokens(OTHER))
            until(lambda: gateway.post(b"", TOKEN, key="k" * 16).status == 401)
            over.set()
            thread.join()
        place.sent_at = time.time()
        assert {*accepted} == {202}
        assert check(place).reports == 2 * len(accepted)


def test_the_token_of_a_board_changes_by_a_restart(kafka, tmp_path):
    """A board keeps nothing on disk. With the new token, the second one answers as the first one did."""
    with Place(kafka, tmp_path, PATIENT) as place:
        worker = place.start().ready()
        with load(place, place.queries.values()) as reports:
            wait_for_more(reports, 60)
        final = check(place)
        assert worker.stop() == 0  # else the window `all` goes on, and its intervals change
        file, answers = tmp_path / "token", []
        for token, other in ((TOKEN, OTHER), (OTHER, TOKEN)):
            file.write_text(token)
            with Board(place.kafka, env=os.environ | {"HUBBUB_TOKEN_FILE": str(file)}) as board:
                board.ready()
                path = "api/v1/queries/page/estimate?kind=all"
                assert board.get(path, Authorization=f"Bearer {other}").status == 401
                answer = board.json(path, Authorization=f"Bearer {token}")
                answers.append((answer["n"], answer["values"]))
                assert board.stop()[0] == 0
        assert answers[0] == answers[1]
        assert answers[0][0] == final.reports


def test_an_old_query_file_comes_back_with_a_higher_revision(kafka, tmp_path):
    """With its own revision workers ignore it. A query that it lacks stays until somebody names it."""
    with Place(kafka, tmp_path, f"revision = 1\n{PATIENT}") as place:
        worker = place.start().ready()
        earlier_queries = place.queries
        place.define(f"revision = 2\n{PATIENT}{NEW}")
        worker.signal(signal.SIGHUP)
        until(lambda: "new" in place.definitions().active)
        with load(place, place.queries.values()):
            place.define(f"revision = 1\n{PATIENT}")
            until(lambda: worker.total("hubbub_definitions_behind") == 1)
            place.define(f"revision = 3\n{PATIENT}")
            until(lambda: worker.total("hubbub_definitions_behind") == 0)
            assert {"new", "page"} == place.definitions().active.keys()
            assert worker.stop() == 0
            place.start("--retire", "new").ready()
            assert {"page"} == place.definitions().active.keys()
        assert place.queries == earlier_queries
        assert check(place).reports > 10


def test_a_query_file_takes_a_new_edition_without_a_new_version(kafka, tmp_path, capsys):
    """`hubbub check` prints the lines that keep each query. Only a query with a new name has the new defaults."""
    with Place(kafka, tmp_path, f"edition = 1\n{OPEN}") as place:
        workers = [place.start().ready()]
        with load(place, place.queries.values()):
            (tmp_path / "copy.toml").write_text(f"edition = 2\n{OPEN}")
            arguments = ["--kafka", place.kafka.servers, "--prefix", place.kafka.prefix]
            assert plan.main(["--topic", *arguments, str(tmp_path / "copy.toml")]) == 4, "no worker would start"
            text = " ".join(capsys.readouterr().out.split())
            [lines] = re.findall(r"page: only the edition .*? To keep it: ([^.]*)\.", text)
            stable = OPEN + lines.replace(", ", "\n") + "\n"
            for text in (f"edition = 1\n{stable}", f"edition = 2\n{stable}", f"edition = 2\n{stable}{NEW}"):
                place.define(text)
                workers[-1].stop()
                workers.append(place.start().ready())
        versions = {version.query.name: version.versions for version in place.definitions().versions.values()}
        assert {name: len(version) for name, version in versions.items()} == {"page": 1, "new": 1}
        noises = {name: query.noise for name, query in place.definitions().active.items()}
        assert noises["page"] != noises["new"]
        assert check(place).reports > 10


def move(old_broker, new_broker, tmp_path, **settings):
    """Move an installation. The old one runs until its last window is final. One of the two counts each report."""
    folders = [tmp_path / "old", tmp_path / "new"]
    for folder in folders:
        folder.mkdir()
    with Place(old_broker, folders[0], PATIENT) as old, Place(new_broker, folders[1], PATIENT, **settings) as new:
        worker = old.start().ready()
        new.start().ready()
        with load(old, old.queries.values()) as reports:
            wait_for_more(reports, 60)
            with load(new, new.queries.values()) as new_reports:
                wait_for_more(new_reports, 60)
        assert check(old).reports > 10
        assert worker.stop() == 0
        assert check(new).reports > 10


@pytest.mark.waits
def test_an_installation_moves_to_another_prefix_with_more_partitions(kafka, tmp_path):
    move(kafka, kafka, tmp_path, partitions=5)


@pytest.mark.waits
def test_an_installation_moves_to_another_cluster(kafka, lone_kafka, tmp_path):
    move(kafka, lone_kafka, tmp_path)
