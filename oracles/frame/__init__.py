"""Frames, the messages that carry reports, in their binary and their JSON form."""

from oracles.errors import FrameError
from oracles.frame.checks import MAX_GROUP, NONE
from oracles.frame.frame import (
    HEADER_SIZE,
    MAGIC,
    MAX_FRAME,
    TICK,
    Frame,
    Header,
    blank,
    decode,
    encode,
    encode_json,
    frames,
    header,
    split,
    with_id,
)
from oracles.frame.query_slots import partition_of, place_in, slots

__all__ = [
    "HEADER_SIZE",
    "MAGIC",
    "MAX_FRAME",
    "MAX_GROUP",
    "NONE",
    "TICK",
    "Frame",
    "FrameError",
    "Header",
    "blank",
    "decode",
    "encode",
    "encode_json",
    "frames",
    "header",
    "partition_of",
    "place_in",
    "slots",
    "split",
    "with_id",
]
