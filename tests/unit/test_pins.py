"""The pins of an application, and numbers of a listing that make no sense. Nothing is charged if they fail."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import orjson
import pytest

from oracles.errors import ParameterError
from oracles.query.public_definition import public_definition
from producers import Client, Ledger, NotAllowed, pin_command
from producers.pins import EQUAL, MEMBERS, check_numbers, check_pins, pins_of, read_pins
from producers.publishers.pinned_query import pin_query
from tests.queries import make_query, make_text

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "definitions.json").read_text())["outside"]
ERRORS = {"NotAllowed": NotAllowed, "ParameterError": ParameterError}


def query(**keys):
    return make_query({"domain": ["a", "b"], "oracle": "hr", "period": "1d", "renew": "2d"} | keys)


def answer(definition, pinned):
    """Answer a query of a listing as an application with pins does."""
    pins = read_pins(pinned)
    listing = orjson.dumps({"queries": [definition]})
    read_query = pin_query(listing, definition["name"], 16.0, "https://gateway.example", pins)
    Client(read_query, ":memory:", pinned=pinned).answer(3)


@pytest.mark.parametrize("case", VECTORS, ids=str)
def test_the_vectors_hold(case):
    if case["error"] is None:
        answer(case["definition"], case["pinned"])
    else:
        with pytest.raises(ERRORS[case["error"]]):
            answer(case["definition"], case["pinned"])


def test_a_query_pins_itself_and_names_the_member_that_differs():
    ledger = Ledger(":memory:")
    Client(query(), ledger, pinned=query())
    with pytest.raises(NotAllowed, match=r"query 'q': .* pins epsilon to at most 0\.5, the listing has 1\.0"):
        Client(query(), ledger, pinned={"epsilon": 0.5})
    with pytest.raises(NotAllowed, match="pins renew to at least 172800, the listing has 86400"):
        Client(query(renew="1d"), ledger, pinned=query())
    with pytest.raises(NotAllowed, match="pins answers to 'life', the listing has 'once'"):
        Client(query(answers="once"), ledger, pinned={"answers": "life"})
    with ledger.transaction() as transaction:
        assert transaction.total_charge() == 0
        assert transaction.last_round(query().digest) == 0


def test_the_order_of_keys_and_missing_members_make_no_difference():
    definition = {"domain": {"low": 0, "high": 1.0}}
    check_pins(definition, {"domain": {"high": 1, "low": 0.0}, "groups": None})
    with pytest.raises(NotAllowed):
        check_pins({"other": 1}, {"other": True})
    with pytest.raises(NotAllowed):
        check_pins(definition, {"domain": {"high": 1, "low": 0.0, "bins": 4}})


def test_all_members_of_an_item_that_matter_can_be_pinned():
    whole = query(groups={"os": ["x"]}, about="a", purpose="b", contact="c")
    members = public_definition(whole)
    others = set(members) - set(MEMBERS)
    assert others == {"name", "lateness", "skew", "from", "until", "classes", "thresholds", "edges", "width"}
    assert set(pins_of(whole, digest=True)) == set(MEMBERS)
    assert set(MEMBERS) - set(pins_of(whole)) == {"digest"}
    assert read_pins(pins_of(query(), digest=True)) == pins_of(query(), digest=True)


@pytest.mark.parametrize(
    "pinned", [{"domian": 3}, "epsilon", [("epsilon", 1)], {"budget": float("nan")}, {"period": None}]
)
def test_a_wrong_pin_is_an_error_at_once(pinned):
    with pytest.raises(ParameterError, match="pinned"):
        Client(query(), ":memory:", pinned=pinned)


@pytest.mark.parametrize("member", EQUAL)
def test_a_malformed_pin_is_an_error_at_once(member):
    with pytest.raises(ParameterError, match=f"pinned {member} must have the form"):
        read_pins({member: 1.5})


@pytest.fixture
def gateway():
    """Return the address of a server that lists one query."""
    listing = orjson.dumps({"queries": [public_definition(query())]})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/v1/queries" else 404)
            self.end_headers()
            self.wfile.write(listing)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_command_prints_what_an_application_pastes(tmp_path, monkeypatch, capsys, gateway):
    monkeypatch.chdir(tmp_path)
    keys = {"domain": ["a", "b"], "oracle": "hr", "period": "1d", "renew": "2d"}
    Path("own.toml").write_text(make_text("q", **keys))
    assert pin_command.main(["q", "--queries", "own.toml"]) == 0
    pinned = json.loads(capsys.readouterr().out)
    assert pinned == pins_of(query())
    Client(query(), ":memory:", pinned=pinned)
    assert pin_command.main(["q", "--gateway", gateway, "--digest"]) == 0
    assert json.loads(capsys.readouterr().out) == {**pinned, "digest": query().digest.hex()}


def test_the_command_names_what_is_missing(tmp_path, capsys, gateway):
    (tmp_path / "own.toml").write_text(make_text("q", domain=8))
    assert pin_command.main(["other", "--queries", str(tmp_path / "own.toml")]) != 0
    assert "has no query 'other'; it has q" in capsys.readouterr().err
    assert pin_command.main(["other", "--gateway", gateway]) != 0
    assert pin_command.main(["q", "--gateway", f"{gateway}/nowhere"]) != 0
    assert pin_command.main(["q", "--gateway", "http://gateway.example"]) != 0
    assert "must be https://" in capsys.readouterr().err


def test_numbers_of_a_query_file_are_allowed():
    check_numbers(public_definition(query()))
