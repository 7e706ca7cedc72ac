"""The gateway's port against its own description: whatever is sent, it answers as the description says."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from oracles.frame import encode_json
from tests.integration.gateways import TOKEN, Site, now

OPINIONS = ("positive_data_acceptance", "use_after_free", "ensure_resource_availability")
"""Checks that the description alone cannot answer: a frame may be well-formed and of a query that nobody knows."""


@pytest.mark.parametrize("examples", [20, pytest.param(400, marks=pytest.mark.long)])
def test_the_gateway_answers_as_its_description_says(tansu, tmp_path, examples):
    with Site(tansu, tmp_path) as site, site.gateway_with_tokens() as gateway:
        schema = schemathesis.openapi.from_url(f"{gateway.url[0]}openapi.json")
        schema.config.checks.negative_data_rejection.expected_statuses.append("413")  # more frames than one may have
        opinions = [check for check in CHECKS.get_all() if check.__name__ in OPINIONS]
        operations = [found.ok() for found in schema.get_all_operations()]
        assert len(operations) == 5  # all but the description itself
        for operation in operations:
            # What has neither parameters nor a body cannot be asked wrongly.
            for mode in GenerationMode if operation.method == "post" else [GenerationMode.POSITIVE]:
                sent = 0

                @settings(
                    max_examples=examples,
                    derandomize=True,
                    deadline=None,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                )
                @given(case=operation.as_strategy(generation_mode=mode))
                def run(case):
                    nonlocal sent
                    sent += 1
                    case.call_and_validate(excluded_checks=opinions, headers={"Authorization": f"Bearer {TOKEN}"})

                run()
                assert sent
        body = encode_json(site.queries["numbers"].digest, now(), site.reports("numbers", 1))
        assert gateway.post(body, TOKEN, kind="application/json").status == 202
        assert gateway.metric("hubbub_gateway_held_bytes") == 0
        assert "Traceback" not in gateway.log_text
