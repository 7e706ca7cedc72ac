"""Finals that are the sums of their windows: they cost little, and show each wrong count as whole records do.

Estimates are functions of these sums, so a wrong sum shows in both. Alerts depend on the finals before, and so does the
state here: a hash of the state before and of the sum. Blocks and names are not shown.
"""

import json
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

from aggregator.publishing import service
from aggregator.publishing.alerts.comparisons import NO_BLOCKS
from aggregator.publishing.decision import Decision
from aggregator.publishing.finals import estimator_process, final
from aggregator.records.encoder import WindowRecords
from aggregator.records.keys import key
from aggregator.records.subject import subjects


def window_result(window, states=(), _=NO_BLOCKS):
    """Return the sums of a window in place of its records, and a state that depends on all finals before it."""
    query = window.query
    total = window.total
    facts = [
        window.through,
        list(window.withheld),
        window.span.start,
        total.n,
        total.implausible,
        total.duplicates,
        total.flags,
    ]
    counts = np.asarray(total.counts, np.int64).tobytes()
    value = json.dumps([str(fact) for fact in facts]).encode() + blake2b(counts, digest_size=12).hexdigest().encode()

    is_final = window.through is None
    names = [key(query, window.span, subject.name, final=is_final) for subject in subjects(query)]
    records = WindowRecords(tuple((name, value) for name in names), (), ())
    if not is_final:
        return SimpleNamespace(window=records, findings=_NO_FINDINGS, decision=Decision([], []))

    old_states = states or [b""] * len(names)
    new_states = [blake2b(state + value, digest_size=12).digest() for state in old_states]
    alerts = [
        (name + b"|sum", json.dumps({"kind": "sum", "state": state.hex()}).encode())
        for name, state in zip(names, new_states, strict=True)
    ]
    return SimpleNamespace(window=records, findings=_NO_FINDINGS, decision=Decision(alerts, new_states))


_NO_FINDINGS = SimpleNamespace(of_totals=())


@contextmanager
def applied(is_whole):
    """Run with sums, unless finals are whole."""
    places = [
        (estimator_process, "window_result", window_result),
        (estimator_process, "final_metrics", lambda _: []),
        (final, "window_result", window_result),
        (service, "check_states", lambda *_: None),
    ]
    with ExitStack() as stack:
        if not is_whole:
            for place in places:
                stack.enter_context(patch.object(*place))
        yield
