"""The first pane of a version with another spread. Senders must know it before, so it is later than for other changes.

A sender computes the partition of a frame from definitions that are up to a minute old, and the frame may be on its way
for a while.
"""

from dataclasses import replace

from hubbub.definitions.versions import Version, Versions

NOTICE = 120
"""Seconds, in addition to those of any change, between the record of a spread and the first pane that it applies to."""


def changes_spread(earlier: Versions, version: Version) -> bool:
    """Whether a version has another spread than the one before it."""
    return version.query.spread != earlier.query.spread


def with_spread_change(earlier: Versions, version: Version, spread_first: int) -> Versions:
    """Return the versions with one more, whose spread applies from a later first pane on.

    Its other changes become a version of their own, with the former spread. If a spread is still to come, a later
    change waits for it, because versions apply in the order of their records.
    """
    query = version.query
    other_changes = version._replace(query=replace(query, spread=earlier.query.spread))
    if other_changes[1:] != earlier.newest[1:]:
        earlier = earlier.with_version(other_changes)
    # A retired query takes no frames, so its spread does not matter.
    return earlier if version.retired else earlier.with_version(version._replace(first=spread_first))
