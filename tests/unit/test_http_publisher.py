"""A publisher over HTTP refuses addresses that would carry its token in clear."""

import pytest

from oracles.errors import ParameterError
from producers import HttpPublisher


@pytest.mark.parametrize("url", ["http://gateway.example", "ftp://127.0.0.1", "127.0.0.1:8802", ""])
def test_a_token_is_not_sent_in_clear(url, tmp_path):
    with pytest.raises(ParameterError, match="https"):
        HttpPublisher(url, queue=tmp_path)
