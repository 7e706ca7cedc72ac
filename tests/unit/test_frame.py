"""Frames. Encoded frames decode to the same values, and other data is refused without harm."""

import base64
import json
import struct
import tracemalloc
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oracles.errors import ParameterError, ReportError
from oracles.frame import MAX_FRAME, TICK, Frame, FrameError, decode, encode, encode_json, partition_of

DIGEST, PANE, NAME = bytes(range(8)), 1_700_000_000, bytes(range(1, 9))
REPORTS = np.arange(12, dtype=np.uint8).reshape(3, 4)
BINARY = encode(DIGEST, PANE, REPORTS, NAME)
TEXT = encode_json(DIGEST, PANE, REPORTS, NAME)

eight = st.binary(min_size=8, max_size=8)
ids = st.none() | eight.filter(any)
panes = st.integers(-(1 << 63), (1 << 63) - 1)
# The widest report, and one more than 256 bytes, whose width needs the second byte of its field.
shapes = st.tuples(st.integers(1, 20), st.integers(1, 20)) | st.sampled_from([(1, 65_535), (2, 257)])


@st.composite
def contents(draw):
    n, width = draw(shapes)
    reports = np.frombuffer(Random(draw(st.integers(0, 1 << 32))).randbytes(n * width), np.uint8).reshape(n, width)
    return draw(eight.filter(any)), draw(panes), reports, draw(ids)


@st.composite
def mutated(draw):
    """Return a valid frame with a few bytes changed, cut or inserted, or with parts of another frame."""
    frames = [encode(*draw(contents())), encode_json(*draw(contents())), BINARY, TEXT, TICK]
    frame = bytearray(draw(st.sampled_from(frames)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, min(len(frame), 150)))
        match draw(st.sampled_from(["change", "cut", "insert", "splice"])):
            case "change":
                frame[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case "cut":
                del frame[at : at + draw(st.integers(1, 50))]
            case "insert":
                frame[at:at] = draw(st.binary(max_size=9) | st.sampled_from([b"{", b"[", b'"', b":", b"\\u", b"null"]))
            case "splice":
                frame[at:] = draw(st.sampled_from(frames))[draw(st.integers(0, 150)) :]
    return bytes(frame)


def refused(data, **options):
    with pytest.raises(FrameError) as error:
        decode(data, **options)
    return error.value


def outcome(data, limit=MAX_FRAME):
    """Return a Frame, or None if `data` is refused. Every other outcome fails."""
    try:
        frame = decode(data, limit)
    except FrameError as error:
        refusal = error
    else:
        return checked(frame, data)
    assert refusal.reason == ("too_large" if len(data) > limit else "malformed")
    assert refusal.detail
    return None


def checked(frame, data):
    assert len(frame.digest) == 8
    assert frame.id is None or (len(frame.id) == 8 and any(frame.id))
    assert -(1 << 63) <= frame.pane < 1 << 63
    assert frame.reports.dtype == np.uint8
    assert frame.reports.nbytes <= len(data)
    assert frame.n is None or len(frame.reports) == frame.n
    return frame


def same(frame, digest, pane, reports, name):
    assert frame.digest == digest
    assert frame.pane == pane
    assert frame.id == name
    assert frame.n == len(reports)
    assert np.array_equal(frame.reports, reports)


def header(**changes):
    fields = {"magic": b"HBB1", "version": 1, "flags": 0, "width": 4, "digest": DIGEST}
    fields |= {"pane": PANE, "id": NAME, "n": 3, "padding": 0} | changes
    return struct.pack("<4sBBH8sq8sII", *fields.values())


def text(**changes):
    fields = {"digest": DIGEST.hex(), "pane": PANE, "id": NAME.hex(), "reports": base64.b64encode(REPORTS).decode()}
    return json.dumps({**fields, **changes}).encode()


@settings(deadline=None)
@given(contents())
def test_a_binary_frame_decodes_to_the_same_values(content):
    _, _, reports, _ = content
    frame = decode(encode(*content))
    same(frame, *content)
    assert frame.shaped(reports.shape[1]) is frame
    assert not frame.is_tick


@settings(deadline=None)
@given(contents())
def test_a_json_frame_decodes_to_the_same_values(content):
    _, _, reports, _ = content
    frame = decode(encode_json(*content))
    assert frame.n is None
    assert not frame.is_tick
    same(frame.shaped(reports.shape[1]), *content)


def test_decode_takes_any_kind_of_bytes():
    for data in (BINARY, TEXT):
        spread = np.repeat(np.frombuffer(data, np.uint8), 2)
        views = [bytearray(data), memoryview(data), memoryview(bytearray(b"x" + data))[1:], memoryview(spread)[::2]]
        # Two reports make 48 bytes, which are whole numbers of four bytes.
        words = np.frombuffer(encode(DIGEST, PANE, REPORTS[:2], NAME), ">u4")
        for view in views:
            same(decode(view).shaped(4), DIGEST, PANE, REPORTS, NAME)
        same(decode(memoryview(words)), DIGEST, PANE, REPORTS[:2], NAME)
    assert refused(bytearray()).reason == refused(memoryview(b"")).reason == "malformed"


def test_a_record_without_a_value_is_malformed():
    assert refused(None).reason == "malformed"


def test_reports_are_not_copied():
    # Byte 40 is the first one after the header.
    data = bytearray(BINARY)
    reports = decode(data).reports
    data[40] ^= 0xFF
    assert reports[0, 0] == 0xFF
    assert not decode(BINARY).reports.flags.writeable


def test_a_frame_does_not_change():
    with pytest.raises(AttributeError):
        decode(BINARY).pane = 0
    # A worker decodes thousands of frames a second, and a dict for each would cost time and memory.
    assert not hasattr(decode(BINARY), "__dict__")


def test_the_header_has_the_layout_of_the_page():
    assert encode(DIGEST, PANE, REPORTS, NAME) == header() + REPORTS.tobytes()
    assert encode(DIGEST, PANE, REPORTS) == header(id=bytes(8)) + REPORTS.tobytes()
    assert len(TICK) == 40
    assert header(width=0, digest=bytes(8), pane=0, id=bytes(8), n=0) == TICK


@pytest.mark.parametrize(
    "change",
    [
        *({"magic": magic} for magic in (b"HBB2", b"hbb1", bytes(4), b"1BBH")),
        *({"version": version} for version in (0, 2, 255)),
        *({"flags": flags} for flags in (1, 128)),
        *({"padding": padding} for padding in (1 << 8, 1 << 16, 1 << 31)),
        *({"width": width} for width in (0, 3, 5, 65_535)),
        *({"n": n} for n in (0, 2, 4, (1 << 32) - 1)),
    ],
    ids=str,
)
def test_a_wrong_header_is_malformed(change):
    assert refused(header(**change) + REPORTS.tobytes()).reason == "malformed"


@pytest.mark.parametrize("length", range(len(BINARY)))
def test_a_frame_that_is_cut_short_is_malformed(length):
    assert refused(BINARY[:length]).reason == "malformed"


def test_a_frame_with_more_bytes_after_it_is_malformed():
    assert refused(BINARY + b"\0").reason == "malformed"
    assert refused(BINARY + BINARY).reason == "malformed"
    assert refused(TICK + b"\0").reason == "malformed"


def test_reports_of_no_width_are_malformed():
    assert refused(header(width=0)).detail == "a report needs at least 1 byte, got 3 reports of 0 bytes"


def test_a_detail_names_the_fault_in_numbers():
    assert refused(BINARY[:-1]).detail == "3 reports of 4 bytes need a frame of 52 bytes, got 51"
    assert refused(BINARY, limit=51).detail == "52 bytes, the limit is 51"
    assert refused(b"GET / HTTP/1.1").detail.endswith("got 14 bytes that start with [71, 69, 84, 32]")


def test_the_limit_is_checked_first():
    for data in (BINARY, TEXT, b"?" * 60, b"{" * 60, bytearray(60), memoryview(bytes(60))):
        assert refused(data, limit=len(data) - 1).reason == "too_large"
        outcome(data, len(data))
    assert refused(bytes(MAX_FRAME + 1)).reason == "too_large"
    assert refused(bytes(MAX_FRAME)).reason == "malformed"


def test_a_frame_without_reports_that_is_no_tick_is_malformed():
    for data in (header(n=0, width=0), header(n=0, width=4), text(reports="")):
        assert refused(data).reason == "malformed"


@given(st.integers(0, 65_535), panes, eight)
def test_a_tick_may_have_any_pane_width_and_id(width, pane, name):
    frame = decode(header(digest=bytes(8), n=0, width=width, pane=pane, id=name))
    assert frame.is_tick
    assert frame.n == 0
    assert frame.id is None
    assert frame.pane == 0
    assert frame.shaped(4).is_tick


def test_a_tick_may_be_json():
    assert decode(b'{"digest": "0000000000000000", "pane": 0, "reports": ""}').is_tick
    assert decode(text(digest="0" * 16, pane=None, id=7.5, reports="")).is_tick


def test_a_zero_digest_with_reports_is_not_a_tick_and_not_malformed():
    for data in (header(digest=bytes(8)) + REPORTS.tobytes(), text(digest="0" * 16)):
        frame = decode(data).shaped(4)
        assert not frame.is_tick
        assert frame.n == 3


def test_an_id_of_zero_is_none():
    assert decode(header(id=bytes(8)) + REPORTS.tobytes()).id is None
    assert decode(text(id="0" * 16)).id is None


def test_the_width_is_checked_against_the_query():
    with pytest.raises(FrameError) as error:
        decode(BINARY).shaped(6)
    assert error.value.detail == "reports must have the query's 6 bytes, got 4"
    assert decode(TEXT).shaped(6).n == 2
    with pytest.raises(FrameError) as error:
        decode(TEXT).shaped(5)
    assert error.value.reason == "malformed"
    assert error.value.detail == "12 bytes are not a multiple of the query's report of 5 bytes"


BOMBS = {
    "lists": b'{"pane":' + b"[" * (MAX_FRAME - 8),
    "many lists": b'{"pane":[' + b"[]," * 340_000 + b"0]}",
    "objects": b'{"a":' * 200_000,
    "closed objects": b'{"a":' * 100_000 + b"0" + b"}" * 100_000,
    "keys": b"{" + b",".join(b'"%d":0' % i for i in range(100_000)) + b"}",
    "one long key": b'{"' + b"k" * 1_000_000 + b'":0}',
    "a long number": b'{"pane":' + b"9" * 1_000_000 + b"}",
    "a long exponent": b'{"pane":1e' + b"9" * 1_000_000 + b"}",
    "spaces": b" " * MAX_FRAME,
    "wide letters": text(reports="\U0001f600" * 80_000),
    "wide letters, unescaped": json.dumps({"digest": "\U0001f600" * 200_000}, ensure_ascii=False).encode(),
    "escapes": text(reports="\0" * 150_000),
    "good base64": encode_json(DIGEST, PANE, np.zeros((190_000, 4), np.uint8)),
    "base64 that is bad at its end": text(reports="A" * 1_000_000 + "B==="),
    "reports that are not there": header(n=(1 << 32) - 1, width=65_535),
    "many reports": encode(DIGEST, PANE, np.zeros((250_000, 4), np.uint8)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_memory_is_a_small_multiple_of_the_input(name):
    data = BOMBS[name]
    assert len(data) <= MAX_FRAME
    tracemalloc.start()
    try:
        outcome(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The JSON parser reserves 12 bytes for each byte of any text.
    assert peak <= (16 if data[:1] == b"{" else 2) * len(data) + 10_000


def test_many_reports_need_no_memory_of_their_own():
    data = BOMBS["many reports"]
    tracemalloc.start()
    frame = decode(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert frame.n == 250_000
    # The reports have a million bytes, so a copy of them would be far above this.
    assert peak < 5_000


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
@example(b"{")
@example(b"HBB1")
def test_any_bytes_are_a_frame_or_refused(data):
    outcome(data)
    outcome(data, 20)


@settings(max_examples=400, deadline=None)
@given(mutated())
def test_damaged_frames_are_frames_or_refused(data):
    frame = outcome(data)
    if frame is not None and not frame.is_tick and data[:1] == b"H":
        assert frame.reports.shape[1] == 0 or encode(frame.digest, frame.pane, frame.reports, frame.id) == data


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([DIGEST.hex(), "AAAA", PANE]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["digest", "pane", "id", "reports", "n", ""]), json_values, max_size=6))
def test_any_json_is_a_frame_or_refused(fields):
    frame = outcome(json.dumps(fields).encode())
    if frame is not None:
        assert {"digest", "pane", "reports"} <= fields.keys() <= {"digest", "pane", "reports", "id"}


def test_encode_refuses_values_that_no_frame_can_hold():
    good = {"digest": DIGEST, "pane": PANE, "reports": REPORTS, "id": NAME}
    for changes in (
        *({"digest": digest} for digest in (b"", bytes(7), bytes(9), "0" * 16, None, 8)),
        *({"pane": pane} for pane in (1 << 63, -(1 << 63) - 1, 1.0, True, "0", None)),
        *({"id": name} for name in (b"", bytes(7), bytes(9), bytes(8), "0" * 16, 1)),
    ):
        for write in (encode, encode_json):
            with pytest.raises(ParameterError):
                write(**{**good, **changes})
    for reports in (
        REPORTS.astype(np.int8),
        REPORTS.astype(np.uint16),
        REPORTS[0],
        REPORTS[None],
        REPORTS.tolist(),
        b"abcd",
        np.zeros((3, 0), np.uint8),
        np.zeros((1, 65_536), np.uint8),
        # 4 GiB of reports in one byte of memory.
        np.broadcast_to(np.zeros(1, np.uint8), (1 << 32, 1)),
    ):
        for write in (encode, encode_json):
            with pytest.raises(ReportError):
                write(**{**good, "reports": reports})


def test_encode_takes_reports_of_any_memory_layout():
    for reports in (REPORTS[::-1], REPORTS[:, ::2], np.asfortranarray(REPORTS)):
        same(decode(encode(DIGEST, np.int64(PANE), reports)), DIGEST, PANE, reports, None)
        same(decode(encode_json(DIGEST, np.int64(PANE), reports)).shaped(reports.shape[1]), DIGEST, PANE, reports, None)


def test_an_id_names_its_partition():
    assert partition_of(bytes([1, 2, 0, 0, 0, 0, 0, 0]), 1000) == 513
    assert partition_of(b"\xff" * 8, 1) == 0
    for name, partitions in ((bytes(8), 3), (b"\1", 3), (None, 3), (NAME, 0), (NAME, -1)):
        with pytest.raises(ParameterError):
            partition_of(name, partitions)


@given(eight.filter(any), st.integers(1, 5000))
def test_a_partition_is_the_remainder_of_the_id(name, partitions):
    assert partition_of(name, partitions) == struct.unpack("<Q", name)[0] % partitions


def test_reading_a_frame_gives_a_frame():
    assert type(decode(BINARY)) is Frame


@pytest.mark.long
def test_a_million_damaged_frames_are_frames_or_refused():
    rng = np.random.default_rng(1)
    wide = rng.integers(0, 256, (30, 7), np.uint8)
    frames = [BINARY, TEXT, TICK, encode(DIGEST, PANE, wide), encode_json(DIGEST, PANE, wide, NAME), text(id="0" * 16)]
    valid = 0
    for _ in range(100):
        which, kind = rng.integers(0, len(frames), (2, 10_000))
        places = rng.integers(0, 1 << 30, (10_000, 3))
        for frame, how, place in zip(which.tolist(), kind.tolist(), places.tolist(), strict=True):
            valid += outcome(damaged(frames, frame, how, place)) is not None
    # If nearly all frames were valid, or nearly none, the damage would not reach the checks.
    assert 10_000 < valid < 990_000


def damaged(frames, which, how, place):
    """Return a frame with a few flipped bits, a missing end, extra or missing bytes, or parts of another frame."""
    frame = bytearray(frames[which])
    position = place[0] % len(frame)
    other = place[1]
    if how <= 1:
        frame[position] ^= 1 << other % 8
        if how == 1:
            frame[place[2] % len(frame)] ^= 1 << other % 7
    elif how == 2:
        del frame[position:]
    elif how == 3:
        frame[position:position] = place[2].to_bytes(4, "little")[: 1 + other % 4]
    elif how == 4:
        del frame[position : position + 1 + other % 8]
    else:
        frame[position:] = frames[other % len(frames)][place[2] % 60 :]
    return bytes(frame)
