"""Query files that several integration tests share."""

PAGE = """\
[queries.page]
crowd = 1
domain = ["a", "b", "c"]
oracle = "grr"
epsilon = 2.0
budget = 1e9
pane = "1s"
lateness = "1s"
skew = "3s"
windows = ["1s", "3s/1s", "all"]
emit_every = "1s"
sets = { most = ["a", "b"] }
"""


PATIENT = PAGE.replace('lateness = "1s"', 'lateness = "10s"')
"""The query for tests that restart workers."""
