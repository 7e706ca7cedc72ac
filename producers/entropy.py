"""Streams of a device key: the same noise for the same round and class, whatever becomes of the store."""

import hmac
import struct
from enum import IntEnum
from hashlib import sha256

import numpy as np

from oracles.errors import ParameterError
from oracles.mechanisms.entropy import Bytes, Source

KEY_BYTES = 32
_BLOCK = 32


class Mode(IntEnum):
    """Whether the round of a stream is a time or a number."""

    KEPT = 0
    """Life and once: the Unix second at which the round began."""
    FRESH = 1
    """The number of answers given before."""


class Purpose(IntEnum):
    """The purpose that a stream is drawn for."""

    ATTRIBUTE = 0
    """The attribute that a record of smp answers."""
    ROWS = 1
    ANSWER = 2
    """The report of a class."""


class Keyed(Source):
    """A stream of HMAC-SHA-256: block i is the code of all that the stream is for, and of i.

    `classes` has one class; for a record of rsfd one an attribute; for rows and for smp's attribute none.
    """

    def __init__(
        self,
        key: bytes,
        digest: bytes,
        attribute: int = 0,
        mode: int = Mode.KEPT,
        purpose: int = Purpose.ANSWER,
        round: int = 0,  # noqa: A002 - the word of the wire format
        classes: tuple[int, ...] = (),
    ) -> None:
        if len(key) != KEY_BYTES:
            raise ParameterError(f"a device key has {KEY_BYTES} bytes, this one has {len(key)}")
        about = struct.pack(f"<8sHBBq{len(classes)}q", digest, attribute, mode, purpose, round, *classes)
        self._code = hmac.new(key, about, sha256)
        self._block = 0
        self._left = b""

    def raw(self, count: int) -> Bytes:
        parts, length = [self._left], len(self._left)
        while length < count:
            code = self._code.copy()
            code.update(struct.pack("<I", self._block))
            self._block += 1
            parts.append(code.digest())
            length += _BLOCK
        data = b"".join(parts)
        self._left = data[count:]
        return np.frombuffer(data[:count], np.uint8)
