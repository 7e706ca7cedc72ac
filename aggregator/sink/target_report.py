"""How a sink stands, by the state in its target and the offsets of the topic. Pure."""

from collections.abc import Iterator, Mapping

from aggregator.sink.sink_state import SinkState, lost


def lines(place: str, state: SinkState | None, begins: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[str]:
    """Yield a line for people about a target, whose state is None if no sink has written one."""
    if state is None:
        yield f"sink: {place} has no state, so no sink has read the topic to its end for it yet"
        return

    # A sink goes on at the first partition that it knows, and reads the others from their beginning.
    # The ends of the embedded broker are inexact, and can lie before what is read.
    missing = sum(
        max(0, end - max(begin, state.offsets.get(number, 0))) for number, begin, end in _ranges(begins, ends)
    )
    gaps = f"{len(state.gaps)} known" if state.gaps else "none known"
    yield f"sink: {place} has all finals but those of the newest {missing:,} records in `finals`; gaps: {gaps}"


def needs(place: str, state: SinkState | None, prefix: str, begins: Mapping[int, int]) -> Iterator[str]:
    """Yield all that a person must do before the sink can go on without a gap."""
    if state is None:
        return
    if state.prefix != prefix:
        yield f"sink: {place} holds finals of prefix {state.prefix!r}, so a sink of {prefix!r} exits with 4"
        return
    for gap in lost(state.offsets, begins, 0):
        yield (
            f"sink: the topic of estimates lost offsets {gap.start} to {gap.end - 1} of partition {gap.partition} "
            f"before the sink of {place} read them (HubbubSinkGap)"
        )


def _ranges(begins: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[tuple[int, int, int]]:
    for number, begin in begins.items():
        yield number, begin, ends[number]
