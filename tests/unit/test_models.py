"""A model with all its rules is exact, and fails without each rule that it needs."""

import pytest

from tests.worlds.models.__main__ import MODELS, main, needed_rules

FAILING_SEEDS = {"at the end": 3, "clock before progress": 53, "known offset": 9}
"""A seed that fails without a rule, where seed 0 to 2 do not."""


@pytest.mark.parametrize("name", MODELS)
def test_a_model_with_all_rules_is_exact(name):
    assert [MODELS[name].Model(seed).run() for seed in range(5)] == [None] * 5


@pytest.mark.parametrize(
    ("name", "rule"), [(name, rule) for name in MODELS for rule in sorted(needed_rules(MODELS[name]))]
)
def test_a_model_without_a_rule_fails(name, rule):
    seeds = [FAILING_SEEDS[rule]] if rule in FAILING_SEEDS else range(3)
    assert any(MODELS[name].Model(seed, {rule}).run() for seed in seeds)


@pytest.mark.parametrize("arguments", [["--most", "x"], ["--least"]])
def test_a_mistake_ends_with_2(arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
