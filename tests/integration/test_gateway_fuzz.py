"""Random requests to the gateway. Every answer fits its OpenAPI description."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from oracles.frame import encode_json
from tests.integration.gateways import TOKEN, Site, now

OPINIONS = ("positive_data_acceptance", "use_after_free", "ensure_resource_availability")
"""Checks that need more than the description. For example, a well-formed frame can have an unknown query."""


@pytest.mark.parametrize("examples", [20, pytest.param(400, marks=pytest.mark.long)])
def test_the_gateway_answers_as_its_description_says(tansu, tmp_path, examples):
    with Site(tansu, tmp_path) as site, site.gateway_with_tokens() as gateway:
        schema = schemathesis.openapi.from_url(f"{gateway.url[0]}openapi.json")
        schema.config.checks.negative_data_rejection.expected_statuses.append("413")  # more frames than one may have
        opinions = [check for check in CHECKS.get_all() if check.__name__ in OPINIONS]
        operations = [result.ok() for result in schema.get_all_operations()]
        assert len(operations) == 6  # all but the description itself
        for operation in operations:
            # A request without parameters and without a body is always valid.
            for mode in GenerationMode if operation.method == "post" else [GenerationMode.POSITIVE]:
                requests = 0

                @settings(
                    max_examples=examples,
                    derandomize=True,
                    deadline=None,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                )
                @given(case=operation.as_strategy(generation_mode=mode))
                def run(case):
                    nonlocal requests
                    requests += 1
                    case.call_and_validate(excluded_checks=opinions, headers={"Authorization": f"Bearer {TOKEN}"})

                run()
                assert requests
        body = encode_json(site.queries["numbers"].digest, now(), site.reports("numbers", 1))
        assert gateway.post(body, TOKEN, kind="application/json").status == 202
        assert gateway.metric("hubbub_gateway_held_bytes") == 0
        assert "Traceback" not in gateway.log_text
