"""The alerts of two groups that differ, which the key `compare` of a query names. Pure.

They are about windows since the start, whose law holds at every look. The two records of the groups decide, by the same
function as the answers of the board, so each alert tells what a reader would see.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from aggregator.publishing.alerts.state import ArmValue, State, dump, load
from aggregator.publishing.kinds.attribute import AttributeChanges
from aggregator.records.alert import ARMS, Alert
from aggregator.records.decoder import decode
from aggregator.records.differences import DifferenceRow
from aggregator.records.digits import DIGITS, rounded
from aggregator.records.encoder import encode_group
from aggregator.records.findings import WindowFindings
from aggregator.records.keys import RecordPlace
from aggregator.records.kinds import kind_of
from aggregator.records.record import Record
from aggregator.records.rows import WindowRow
from aggregator.records.subject import IMPOSSIBLE
from oracles.estimate.looks import EVERY_LOOK
from oracles.query.settings import quantile_of

_ALL_DIGITS = 17
"""Digits that keep a float as it is."""


def with_arms(window: WindowFindings, attribute: int, changes: AttributeChanges) -> AttributeChanges:
    """Return the changes of an attribute, with the alerts of its pairs of groups.

    Each pair and value has one alert, so the state remembers them.
    """
    if not window.query.compare or window.span.window.kind != "all":
        return changes

    state = load(changes.state) if changes.state else State(window.span.start)
    proofs = {place: row for place, row in _proofs(window, attribute) if place not in state.arms}
    if not proofs:
        return changes
    alerts = [_alert(window, attribute, place, proofs[place]) for place in sorted(proofs)]
    new_state = replace(state, arms=state.arms | proofs.keys())
    return changes._replace(alerts=changes.alerts + alerts, state=dump(new_state))


def _proofs(window: WindowFindings, attribute: int) -> Iterator[tuple[ArmValue, DifferenceRow]]:
    """Yield the shares and quantiles that are proved to differ between two groups."""
    query = window.query
    records = dict(_records(window, attribute))
    # The pairs share the error, because any of them may be the one that brings a false alert.
    family_error = query.family_error / len(query.compare)
    size = query.domains[attribute].size
    for group, other in query.compare:
        if group not in records or other not in records:
            continue
        before = records[group]
        differences = kind_of(before).differences(
            before, records[other], size, family_error, None, None, apart=True, looks=EVERY_LOOK
        )
        for row in differences.rows:
            # A mean is tested with the quantiles, but an alert has no form for it.
            if row.proved and (row.measure == "share" or quantile_of(row.value) is not None):
                yield (group, other, row.value), row


def _records(window: WindowFindings, attribute: int) -> Iterator[tuple[str, Record]]:
    """Yield the record of each group that the query compares and that proves anything."""
    query = window.query
    names = dict.fromkeys(name for pair in query.compare for name in pair)
    for name in names:
        number = query.groups.number(name)
        totals = window.by_group.get(number)
        if totals is None:
            continue
        findings = totals[attribute].findings
        if findings.has_values and IMPOSSIBLE not in findings.flags:
            yield name, decode(encode_group(window, RecordPlace(number, attribute)))


def _alert(window: WindowFindings, attribute: int, place: ArmValue, row: DifferenceRow) -> Alert:
    query = window.query
    subject = window.totals[attribute].findings.subject
    is_share = row.measure == "share"
    # A number on a scale has the digits of its scale already.
    digits = DIGITS if is_share else _ALL_DIGITS
    group, other, value = place
    return Alert.of(
        kind=ARMS,
        query=query.name,
        digest=query.digest.hex(),
        attribute=subject.name,
        value=value,
        window=WindowRow.of(window.span),
        share=cast(float, rounded(row.after, digits)),
        low=rounded(row.low, digits),
        high=rounded(row.high, digits),
        threshold=None,
        by=None,
        baseline=False,
        before=rounded(row.before, digits),
        probability=None,
        scale=None,
        from_=None,
        to=None,
        quantile=None if is_share else quantile_of(value),
        unit=None if is_share else subject.domain.unit,
        group=group,
        with_=other,
        difference=rounded(row.difference, digits),
        p_value=rounded(row.p_value),
    )
