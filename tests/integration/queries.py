"""Query files that several integration tests share."""

from tests.queries import LIVE, make_text

PAGE_TIMES = LIVE | {"lateness": "1s", "skew": "3s", "windows": ["1s", "3s/1s", "all"], "emit_every": "1s"}
PAGE = make_text("page", PAGE_TIMES, domain=["a", "b", "c"], oracle="grr", epsilon=2.0, sets={"most": ["a", "b"]})


PATIENT = PAGE.replace('lateness = "1s"', 'lateness = "10s"')
"""The query for tests that restart workers."""
