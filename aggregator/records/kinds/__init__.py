"""The kinds of answers in a record: values, numbers and names. Each is a module with the same functions.

- `fields(window, total)` returns the members of a record that show something of the answers.

A kind without a module here is written like values. Groups, pairs and withholding are no kinds. They wrap one, and no
kind knows of them.
"""

from typing import Any, Protocol

from aggregator.records import withheld_fields
from aggregator.records.findings import GroupTotal, WindowFindings, WithheldFindings
from aggregator.records.kinds import names, numbers, values
from oracles.query.domain import NAMES, NUMBERS, VALUES


class RecordKind(Protocol):
    """The functions of a kind."""

    def fields(self, window: WindowFindings, total: GroupTotal, /) -> dict[str, Any]: ...


KINDS: dict[str, RecordKind] = {VALUES: values, NUMBERS: numbers, NAMES: names}


def fields_of(window: WindowFindings, total: GroupTotal) -> dict[str, Any]:
    """Return the members of a record that follow from its findings."""
    findings = total.findings
    if isinstance(findings, WithheldFindings):
        return withheld_fields.fields(window.query, findings)
    return KINDS.get(findings.subject.domain.kind, values).fields(window, total)
