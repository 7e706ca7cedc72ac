"""Random requests to the board about values, numbers and unknown queries. Every answer fits its OpenAPI description."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS

from tests.boards import LOAD_TIME, NUMBERS, QUERIES, VISIT, Board, Crowd, NumberCrowd, definition_messages, publish
from tests.brokers import create_topics

OPINIONS = ("positive_data_acceptance", "use_after_free", "ensure_resource_availability")
"""Checks that need more than the description. For example, a well-formed window may not exist."""
ENDLESS = "/api/v1/events"


@pytest.fixture
def place(tansu):
    kafka = create_topics(tansu)
    crowds = Crowd(QUERIES["homepage"], clients=500), NumberCrowd(LOAD_TIME, clients=2_000)
    crowds += (NumberCrowd(VISIT, clients=1_000),)
    messages = [message for _ in range(3) for crowd in crowds for message in crowd.next()]
    publish(kafka, [*definition_messages({**QUERIES, **NUMBERS}), *messages])
    return kafka


def ask(operation, examples, opinions):
    """Send random requests of an operation, and return the status of each."""
    statuses = []

    @settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), query=st.sampled_from(["homepage", "load_time", "visit", "profile"]))
    def run(case, query):
        if "{query}" in operation.path:
            case.path_parameters["query"] = query
        statuses.append(case.call_and_validate(excluded_checks=opinions).status_code)

    run()
    return statuses


@pytest.mark.parametrize("examples", [8, pytest.param(200, marks=pytest.mark.long)])
def test_the_board_answers_as_its_description_says(place, examples):
    with Board(place) as board:
        board.ready()
        schema = schemathesis.openapi.from_url(f"{board.url}openapi.json")
        opinions = [check for check in CHECKS.get_all() if check.__name__ in OPINIONS]
        operations = [result.ok() for result in schema.get_all_operations()]
        statuses = {each.path: ask(each, examples, opinions) for each in operations if each.path != ENDLESS}
        for name in ("quantiles", "range", "cdf"):
            assert statuses[f"/api/v1/queries/{{query}}/{name}"]
            assert board.get(f"api/v1/queries/load_time/{name}").status == 200
        assert board.get("readyz").status == 200
        _, errors = board.stop()
    assert "Traceback" not in errors
