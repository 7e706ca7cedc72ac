"""The key `prior`: which prior the methods that fit one take."""

import pytest

from hubbub.definitions.table import dump, query_of
from oracles.errors import QueryError
from tests.queries import make_query

CALIBRATED = {"domain": 8, "oracle": "oue", "budget": 100.0, "methods": ["norm_sub", "calibrate"]}


def query(edition=2, **keys):
    return make_query({**CALIBRATED, **keys}, edition=edition)


def test_each_edition_has_its_default():
    assert [query(edition).prior for edition in (1, 2, 3)] == [None, None, "best"]
    assert query(prior="best").prior == "best"
    assert query(3, prior="power_law").prior == "power_law"
    assert query(3, methods=["norm_sub"]).prior is None


def test_no_prior_changes_the_digest():
    digests = {query(edition, **keys).digest for edition in (2, 3) for keys in ({}, {"prior": "power_law"})}
    assert digests == {query(prior="best").digest}


def test_a_definition_keeps_the_prior_that_it_names():
    assert "prior" not in dump(query())
    for version in (query(3), query(prior="power_law")):
        again = query_of("q", dump(version))
        assert again.prior == version.prior
    # A definition in a topic without the key is older than it.
    table = {name: value for name, value in dump(query(3)).items() if name != "prior"}
    assert query_of("q", table).prior is None


@pytest.mark.parametrize("prior", ["power_law", "best"])
def test_methods_without_a_prior_refuse_the_key(prior):
    with pytest.raises(QueryError, match=r"prior: must be absent.*calibrate, calibrate_norm_sub"):
        query(methods=["norm_sub"], prior=prior)
    with pytest.raises(QueryError, match="prior: must be absent"):
        make_query({"domain": {"discover": "text"}, "prior": prior}, edition=2)


@pytest.mark.parametrize("prior", ["free", "auto", 1, True, None])
def test_other_priors_are_refused(prior):
    with pytest.raises(QueryError, match="prior: must be"):
        query(prior=prior)
