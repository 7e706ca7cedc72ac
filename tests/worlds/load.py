"""The load of a world: it appends the frames of the plan to `reports`."""

from aiokafka import TopicPartition

from hubbub.kafka.settings import REPORTS
from oracles.frame import TICK, encode, encode_json, slots
from tests.worlds.queries import pool, query_file


class Load:
    """The senders of reports."""

    def __init__(self, world):
        self._world = world

    def begin(self):
        for frame in self._world.plan.frames:
            self._world.later(frame.at, self._send, frame)

    def _send(self, frame):
        """Append a frame, unless its partition takes no writes. A sender that gives up is no fault of the workers."""
        world = self._world
        number, place = place_of(frame, world.plan.mix.partitions)
        tp = TopicPartition(world.kafka.topic(REPORTS), place)
        if world.log.at(tp).blocked_until <= world.now:
            data = data_of(frame, number)
            world.log.append(tp, [(None, data, None, ())], writer="sender")


def place_of(frame, partitions):
    """Return the id of a frame as a number, and the partition that its sender chooses."""
    query = query_file().queries[frame.query]
    # Some frames come from senders that know no spread.
    if query.spread is None or query.spread >= partitions or frame.is_misplaced:
        return (frame.id or 0) * partitions + frame.partition + int(frame.is_misplaced), frame.partition
    number = frame.partition % query.spread
    return (frame.id or 0) * query.spread + number, slots(query.digest, query.spread, partitions)[number]


def data_of(frame, number):
    """Return the bytes of a frame, with the id of this number if it has one."""
    query = query_file().queries[frame.query]
    reports = pool(frame.query)[list(frame.rows)]
    name = None if frame.id is None else number.to_bytes(8, "little")
    if frame.form == "JSON":
        return encode_json(query.digest, frame.pane, reports, name, group=group_of(query, frame.group))

    data = encode(query.digest, frame.pane, reports, name, group=frame.group)
    match frame.form:
        case "binary":
            return data
        case "empty":
            return b""
        case "no JSON":
            return b"{"
        case "too short":
            return data[:-1]
        case "too long":
            return data + b"\0"
        case "unknown query":
            return encode(b"nobody!!", frame.pane, reports)
        case "pane between panes":
            return encode(query.digest, frame.pane + 1, reports)
    return TICK


def group_of(query, number):
    """Return the name and the value of a group, as JSON has it."""
    return {query.groups.name: query.groups.values[number - 1]} if number else None
