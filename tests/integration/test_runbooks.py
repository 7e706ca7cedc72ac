"""The commands of the runbooks that need only the brokers, on an installation with another number of partitions."""

import re
import shlex

import pytest

from aggregator.plan import check
from aggregator.reading import rejects
from aggregator.topics import command as topics
from tests.deploy.compose import DEPLOY, SERVICES
from tests.integration.queries import PAGE
from tests.integration.workers import Place, environment

PARTITIONS = 5
LINE = re.compile(r"^docker compose -f deploy/compose\.yaml (run --rm|exec) (\w+)([^#|\n]*)", re.MULTILINE)
ANSWERING = {"topics": topics.main, "check": check.main, "rejects": rejects.main}
"""Commands that end by themselves and ask no process of hubbub. `hubbub metrics` asks one, and `tail` never ends."""


def commands():
    """Return the distinct commands of all pages as the service of Compose would run them."""
    lines = set()
    for page in DEPLOY.glob("runbooks/*.md"):
        for verb, service, text in LINE.findall(page.read_text()):
            words = tuple(shlex.split(text))
            if verb == "exec" and words[:1] == ("hubbub",):
                lines.add(words[1:])
            elif verb != "exec":
                # Words of its own would replace those of the service, and with them its number of partitions.
                assert not words, f"{page.name}: docker compose run --rm {service}{text}"
                lines.add(tuple(SERVICES[service]["command"]))
    return sorted(line for line in lines if line[0] in ANSWERING)


@pytest.fixture(scope="module")
def place(kafka, tmp_path_factory):
    with Place(kafka, tmp_path_factory.mktemp("runbooks"), PAGE, partitions=PARTITIONS) as place:
        place.start().ready()
        yield place


def test_the_pages_have_commands_for_topics():
    assert {words[0] for words in commands()} == ANSWERING.keys()


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_of_a_runbook_advises_no_deletion(place, words, monkeypatch, capsys):
    for name, value in environment(place.kafka, place.file).items():
        monkeypatch.setenv(name, value)
    # An operator with another number has written it into compose.yaml.
    program, *options = [str(PARTITIONS) if word == "12" and words[0] == "topics" else word for word in words]
    assert ANSWERING[program](options) == 0
    output = "".join(capsys.readouterr())
    assert "delete" not in output
    # Without an option `topics` keeps the present number.
    assert program != "topics" or f"reports: {PARTITIONS} partitions" in output
