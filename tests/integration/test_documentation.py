"""README.md and docs/. Every code block runs in order and unchanged, or gives a reason against it."""

import asyncio
import re

import pytest
import trustme

from aggregator.demo.broker import free_port
from aggregator.demo.story import query_text
from oracles.query import load
from producers.simulation.crowd.scenario import read_scenario
from tests.blocks import DOCUMENTS, Session, blocks
from tests.integration.workers import define
from tests.queries import make_text

LANGUAGES = {"python", "js", "console", "sql", "toml", "json", "yaml", "text"}
TUTORIAL = "tutorial.md"
"""The page that starts a broker of its own, in an empty folder."""
WITH_HOMEPAGE = ("README.md", "clients.md", "export.md", TUTORIAL)
"""Documents whose Python has the default prefix. They share its query `homepage`."""
QUERIES = make_text("homepage", domain=["a.example", "b.example"])
BROKERS = "kafka-1:9092,kafka-2:9092,kafka-3:9092", "kafka-1:9092", "localhost:9092"


def run(document):
    return [block for block in blocks(document) if block.language != "text" and block.reason is None]


@pytest.fixture
def session(tmp_path, monkeypatch, request):
    """A folder with a query file and a certificate for a document. Its addresses are free ports."""
    kafka = request.getfixturevalue("kafka") if request.param else None
    monkeypatch.chdir(tmp_path)
    document = request.node.callspec.params["document"]
    if document.name != TUTORIAL:
        (tmp_path / "hubbub.toml").write_text(query_text(0) if document.name == "simulate.md" else QUERIES)
    certificate = trustme.CA().issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    instead = {port: str(free_port()) for port in ("8801", "8802", "8803")}
    prefix = "hubbub." if document.name in WITH_HOMEPAGE else f"{document.name}."
    environment = {"HUBBUB_PORT": "0", "HUBBUB_PREFIX": prefix}
    if kafka is not None:
        instead |= dict.fromkeys(BROKERS, kafka.bootstrap)
        environment["HUBBUB_KAFKA"] = kafka.bootstrap
    if document.name == TUTORIAL:
        instead["9092"] = str(free_port())
        environment["HUBBUB_KAFKA"] = f"127.0.0.1:{instead['9092']}"
    session = Session(tmp_path, instead, environment)
    if kafka is not None and not any("hubbub topics" in block.text for block in run(document)):
        session.command("hubbub topics")
    if document.name == "export.md":
        asyncio.run(define(kafka.kafka(prefix), load(tmp_path / "hubbub.toml")))
    yield session
    session.close()


def needs_kafka(document):
    return document.name != TUTORIAL and any(
        re.search(r"9092|hubbub (topics|worker|gateway --|board|simulate)", block.text) for block in run(document)
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_block_has_a_known_language_and_a_fence(document):
    all_blocks = blocks(document)
    assert {block.language for block in all_blocks} <= LANGUAGES
    text = document.read_text()
    assert len(all_blocks) == len(re.findall(r"^ *```", text, re.MULTILINE)) / 2
    assert text.count("<!-- not run:") == sum(block.reason is not None for block in all_blocks)
    bare = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"^\n {4}\S", bare, re.MULTILINE)


DEVICE = "device.md"
"""The page that needs Node and a browser: tests/browser/test_first_device.py runs it."""
WITH_CODE = [document for document in DOCUMENTS if run(document) and document.name != DEVICE]


@pytest.mark.waits
@pytest.mark.parametrize(
    ("document", "session"),
    [pytest.param(path, needs_kafka(path), id=path.name) for path in WITH_CODE],
    indirect=["session"],
)
def test_every_block_of_a_document_runs_in_order(document, session):
    for block in run(document):
        session.run(block)
        # A reader runs an example again, soon after the first time.
        if document.name == "README.md" and block.language == "python":
            session.run(block)
        if block.language == "toml":
            read(session.folder)


def read(folder):
    """Check that hubbub accepts the files of TOML blocks."""
    load(folder / "hubbub.toml")
    if (folder / "scenario.toml").exists():
        read_scenario(folder / "scenario.toml", load(folder / "hubbub.toml")["homepage"])


def test_documents_with_code_are_found():
    assert {"README.md", "clients.md", "export.md", "query-file.md"} <= {path.name for path in WITH_CODE}
