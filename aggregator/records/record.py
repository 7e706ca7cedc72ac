"""The record: the message about one attribute of a window. Each of its fields is declared once, here."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import orjson

from aggregator.records import documents
from aggregator.records.crowd_privacy import CrowdPrivacy
from aggregator.records.field import declarations, declared
from aggregator.records.group_fields import WEIGHTED
from aggregator.records.name_rows import DISCOVER, DiscoverRow
from aggregator.records.number_rows import DISTRIBUTION, ScaleRow, numbers_of
from aggregator.records.rows import (
    HITTER,
    ORACLE,
    QUALITY,
    SET,
    WINDOW,
    HitterRow,
    OracleRow,
    RefusedRow,
    ThresholdRow,
    WindowRow,
)
from aggregator.records.span import Span
from aggregator.records.words import WITHHELD
from hubbub.http.schema import Attribute, Count, Digest, Known, Name, read
from oracles.consistency import UNBIASED
from oracles.mechanisms import NUMBER_ORACLES
from oracles.numbers import Numbers
from oracles.query.domain import NAMES, NUMBERS, VALUES
from oracles.types import Floats

VERSION = 3
OLDEST = 2
"""The oldest version of records that can be read."""
_OVERHEAD, _ARRAY = 1_000, 100
"""Approximate bytes of a record without its arrays, and of an array without its numbers."""
_LISTING = (VALUES, NAMES)
"""The kinds whose records list values."""


def _no_shares() -> dict[str, list[Any]]:
    return {UNBIASED: []}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """A record: one attribute of a window, or its only answer. Its fields have the order of the written ones."""

    query: Name = declared(document=documents.NAME)
    attribute: Attribute = declared(
        "null if a client gives one answer. A [pair](#several-attributes) has both names, as in `version*crash`",
        document=documents.ATTRIBUTE,
    )
    group: str | None = declared(
        'the [group](#groups), such as `{"platform": "ios"}`. Null in the total. Absent if the query has no groups',
        is_optional=True,
        document=documents.GROUP,
    )
    """The value of its group, "(none)" for reports without a group. None for the total of all groups."""
    digest: Digest = declared()
    window: WindowRow = declared(
        "its `kind`, `start`, `end`, `size` and `step` in seconds. `through` ends the panes of a provisional one",
        document=WINDOW,
    )
    final: bool = declared()
    level_json: bytes = declared(
        "the level of `low` and `high`: each interval is for one value. "
        "[Lists of the largest values](estimates.md#what-is-listed-first) need a higher level",
        since=3,
        document=documents.LEVEL,
        is_json=True,
    )
    size: Annotated[int | None, {"minimum": 1, "maximum": 1 << 53}] = declared(
        "number of values in the domain. Null for unknown strings", since=3
    )
    threshold: ThresholdRow | None = declared(
        "the query's threshold: its `kind` (`significance`, `share` or `count`) and its `value`",
        since=3,
        document=documents.written(ThresholdRow, {"value": {"type": "number", "minimum": 0}}),
    )
    n: Count = declared("reports counted, without refused reports")
    n_independent: Count = declared(
        "reports with noise of their own. It is smaller than n if the window is longer than the query's `period`, "
        "because clients repeat their reports. All errors are computed with it. Null in a withheld record",
        document=documents.or_null(documents.COUNT),
    )
    oracle: OracleRow = declared(
        "`p` and `q` are the probabilities in use. `record_epsilon` protects a whole record of several attributes",
        document=ORACLE,
    )
    sigma: Known = declared(
        "standard error of a value that no client has", kinds=(VALUES,), document=documents.POSITIVE
    )
    significance: Known = declared(
        "the share from which a value is proved to exist. It follows from the critical count of exact tails. "
        "Null if no count is enough",
        kinds=(VALUES,),
        since=3,
        document=documents.POSITIVE,
    )
    detectable: Known = declared(
        "a value with this share is found significant with probability 0.9. Null above 1",
        kinds=(VALUES,),
        document=documents.CHANCE,
    )
    shift_per_fake: Known = declared(
        "the largest change of a share that one forged report can cause", document=documents.POSITIVE
    )
    answers: Annotated[str | None, {"maxLength": 64}] = declared(
        "how a client repeats its answers: `life`, `once` or `fresh`. With the first two, its noise stays the same "
        "from window to window",
        since=3,
        document={"enum": ["life", "once", "fresh", None]},
    )
    numbers_json: bytes = declared(
        "the distribution of [numbers](#numbers). Null in a withheld record",
        kinds=(NUMBERS,),
        document=documents.or_null(DISTRIBUTION),
        is_json=True,
    )
    values: tuple[str, ...] = declared(
        "the published values, the largest unbiased shares first",
        kinds=_LISTING,
        missing=list,
        document={**documents.listed(documents.VALUE), "uniqueItems": True},
    )
    shares: Mapping[str, Floats] = declared(
        {
            ".unbiased": "unbiased estimates, which can be negative. `stderr`, `low` and `high` (95%) belong to these",
            ".METHOD": "estimates by each of the query's methods",
        },
        kinds=_LISTING,
        missing=_no_shares,
        document=documents.SHARES,
    )
    stderr: Floats = declared(kinds=_LISTING, missing=list, document=documents.listed(documents.POSITIVE))
    low: Floats = declared(kinds=_LISTING, missing=list, document=documents.listed(documents.CHANCE))
    high: Floats = declared(kinds=_LISTING, missing=list, document=documents.listed(documents.CHANCE))
    discover_json: bytes = declared(
        "what is known about names of [unknown strings](#unknown-strings). Null in a withheld record",
        kinds=(NAMES,),
        document=documents.or_null(DISCOVER),
        is_json=True,
    )
    weighted_json: bytes = declared(
        "the total of the groups, weighted to their known shares. Null if no group with a weight is shown",
        is_optional=True,
        document=documents.or_null(WEIGHTED),
        is_json=True,
    )
    hitters_json: bytes = declared(
        {".METHOD": "the values whose share by the method exceeds the query's threshold, largest first"},
        kinds=(VALUES,),
        missing=_no_shares,
        document=documents.by_name(documents.listed(HITTER), documents.METHOD),
        is_json=True,
    )
    sets_json: bytes = declared(
        {
            ".NAME": "the set's unbiased `share`, its `stderr` and 95% interval (null if unknown), and its share by "
            "each method"
        },
        kinds=(VALUES,),
        missing=dict,
        document=documents.by_name(SET),
        is_json=True,
    )
    refused: RefusedRow = declared(
        "reports left out: reports in frames counted before, and reports whose number of ones no honest client sends",
        document=documents.written(RefusedRow, {"duplicate": documents.COUNT, "implausible": documents.COUNT}),
    )
    quality_json: bytes = declared(
        {
            ".sum": "sum of all unbiased shares. If it differs from 1 by more than noise explains, there is an error",
            ".risk": "estimated mean squared error of a share, by method. It can be negative if all errors are small",
            ".flags": "see below",
        },
        document=QUALITY,
        is_json=True,
    )
    central: CrowdPrivacy | None = declared(
        "what a person reveals to somebody who sees this record and no other: `epsilon` and `delta`, if `honest` "
        "reports of others are honest ([privacy.md](privacy.md#who-sees-only-the-estimates)). It says nothing about "
        "several windows together. Null in provisional records, and if a person may be in the window twice",
        since=3,
        is_optional=True,
        document=documents.or_null(
            documents.written(
                CrowdPrivacy,
                {
                    "epsilon": {"type": "number", "exclusiveMinimum": 0},
                    "delta": {"type": "number", "exclusiveMinimum": 0},
                },
            )
        ),
    )
    span: Span
    """The window's kind and bounds, as one value."""
    through: int | None
    """The end of the panes in a provisional record, or None if the window is final."""
    flags: tuple[str, ...]

    @property
    def withheld(self) -> str | None:
        """The flag that says why the record has no values, or None if it has them."""
        return next((flag for flag in WITHHELD if flag in self.flags), None)

    @property
    def proves_presence(self) -> bool:
        """Whether a proof is that a value is present. Otherwise it is that its share exceeds a share."""
        return self.threshold is not None and self.threshold.kind == "significance"

    @property
    def kind(self) -> str:
        """The kind of the answers. A withheld record of names cannot be told from one of values."""
        if self.oracle.name in NUMBER_ORACLES:
            return NUMBERS
        return VALUES if self.discover_json == b"null" else NAMES

    @property
    def consistent_method(self) -> str | None:
        """The query's first consistent method, or None if it has none."""
        return next((name for name in self.shares if name != UNBIASED), None)

    @property
    def memory(self) -> int:
        """Approximate bytes in memory."""
        arrays = (*self.shares.values(), self.stderr, self.low, self.high)
        columns = sum(_ARRAY + array.nbytes for array in arrays)
        texts = sum(len(getattr(self, attribute)) for attribute in JSON_MEMBERS.values())
        return _OVERHEAD + columns + 8 * len(self.values) + texts

    def member(self, name: str) -> Any:
        """Return one of the members that stay JSON: level, numbers, discover, weighted, hitters, sets or quality."""
        return orjson.loads(getattr(self, JSON_MEMBERS[name]))

    def rest(self) -> dict[str, Any]:
        """Return the members that stay JSON, and the oracle."""
        return {name: self.member(name) for name in JSON_MEMBERS} | {"oracle": asdict(self.oracle)}

    def numbers(self) -> Numbers | None:
        """Return the distribution of numbers, in at most 1,024 bins. None if the window is withheld."""
        fields = self.member("numbers")
        if fields is None:
            return None
        return numbers_of(read(ScaleRow, fields), self.n, self.n_independent, self.oracle)

    def discover(self) -> DiscoverRow | None:
        """Return what a search has found and can find, if strings are unknown. None if the window is withheld."""
        fields = self.member("discover")
        return None if fields is None else read(DiscoverRow, fields)

    def hitters(self, method: str) -> list[HitterRow]:
        """Return the hitters of a method."""
        return [read(HitterRow, row) for row in self.member("hitters").get(method, [])]


JSON_MEMBERS = {name: f"{name}_json" for name, declaration in declarations(Record).items() if declaration.is_json}
"""The attribute of each member that stays JSON."""
