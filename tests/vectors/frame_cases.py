"""Good and bad frames, of which make.py makes frames.json."""

import base64
import json

import numpy as np

from oracles.frame import TICK, decode, encode, encode_json, partition_of

DIGEST, PANE, NAME = bytes.fromhex("e49ed91b111b507a"), 1_700_000_000, bytes.fromhex("0102030405060708")
TWO = np.array([[0x1A, 0, 0, 0], [0x0C, 0, 0, 0]], np.uint8)
GOOD = encode(DIGEST, PANE, TWO, NAME)


def patched(offset, new, frame=GOOD):
    return frame[:offset] + new + frame[offset + len(new) :]


def text(**changes):
    """Return the JSON of the good frame with changes. None leaves a key out."""
    fields = {"digest": DIGEST.hex(), "pane": PANE, "id": NAME.hex(), "reports": base64.b64encode(TWO).decode()}
    return json.dumps({key: value for key, value in {**fields, **changes}.items() if value is not None})


def good_frames():
    wide = np.arange(65_535, dtype=np.uint16).astype(np.uint8)[None, :300]
    binary = {
        "the example of docs/wire-format.md": GOOD,
        "no id": encode(DIGEST, PANE, TWO),
        "one report of 1 byte": encode(DIGEST, PANE, TWO[:1, :1]),
        "one report of 300 bytes": encode(DIGEST, PANE, wide),
        "a pane before 1970": encode(DIGEST, -10, TWO),
        "the first pane there is": encode(DIGEST, -(1 << 63), TWO),
        "the last pane there is": encode(DIGEST, (1 << 63) - 1, TWO),
        "a zero digest with reports, which no query has": encode(bytes(8), PANE, TWO),
        "group 1": encode(DIGEST, PANE, TWO, NAME, group=1),
        "the last group, no id": encode(DIGEST, PANE, TWO, group=255),
        "a tick": TICK,
        "a tick with a pane, an id and a width": patched(6, b"\x04\x00", patched(16, GOOD[16:32], TICK)),
    }
    slashes = base64.b64encode(b"\xff\xff\xff\xfb").decode().replace("/", "\\/")
    json_frames = {
        "JSON": text(),
        "JSON without id": text(id=None),
        "JSON as hubbub writes it": encode_json(DIGEST, PANE, TWO, NAME).decode(),
        "JSON with an id of zeros, which is none": text(id="0" * 16),
        "JSON after white space": " \t\r\n" + text() + "\n",
        "JSON with keys in another order": json.dumps(dict(reversed(json.loads(text()).items()))),
        "JSON with upper-case digits": text(digest=DIGEST.hex().upper()),
        "JSON with escapes": text(reports="?").replace("?", slashes).replace("pane", "p\\u0061ne"),
        "JSON with the first pane there is": text(pane=-(1 << 63)),
        "JSON with the last pane there is": text(pane=(1 << 63) - 1),
        "JSON with a group": text(group={"platform": "ios"}),
        "JSON with a group, as hubbub writes it": encode_json(
            DIGEST, PANE, TWO, NAME, group={"platform": "ios"}
        ).decode(),
        "JSON with a group of any text": text(id=None, group={"platform": "Windows (beta) \u00fc"}),
        "JSON of a tick": text(digest="0" * 16, reports="", pane=0, id=None),
        "JSON of a tick, whose pane and id are not read": text(digest="0" * 16, reports="", pane="now", id=7),
    }
    return [good_frame(*each) for each in (binary | json_frames).items()]


def good_frame(name, data):
    frame = decode(data.encode() if isinstance(data, str) else data)
    case = {"name": name, **shown(data), "tick": frame.is_tick}
    if frame.is_tick:
        return case
    fields = {"digest": frame.digest.hex(), "pane": str(frame.pane), "id": frame.id and frame.id.hex(), "n": frame.n}
    width = None if frame.n is None else frame.reports.shape[1]
    group = {"group": frame.group, "named_group": frame.named_group and list(frame.named_group)}
    return {**case, **fields, **group, "width": width, "reports": frame.reports.tobytes().hex()}


def shown(data):
    """Bytes as hex digits, JSON as itself."""
    return {"json": data} if isinstance(data, str) else {"hex": data.hex()}


def bad_frames():
    binary = {
        "no bytes": b"",
        "a magic and nothing else": GOOD[:4],
        "a header that is cut short": TICK[:39],
        "another magic": patched(3, b"2"),
        "a magic in lower case": patched(0, b"h"),
        "version 0": patched(4, b"\0"),
        "version 2": patched(4, b"\2"),
        "a flag": patched(5, b"\1"),
        "group 256": patched(37, b"\1"),
        "group 65535": patched(36, b"\xff\xff"),
        "a tick of group 1": patched(36, b"\1", TICK),
        "the first byte of padding": patched(38, b"\1"),
        "the last byte of padding": patched(39, b"\x80"),
        "a report that is cut short": GOOD[:-1],
        "a report that is missing": GOOD[:-4],
        "a byte too many": GOOD + b"\0",
        "a second frame": GOOD + GOOD,
        "no reports": encode(DIGEST, PANE, TWO[:0]),
        "no reports, but an id": encode(DIGEST, PANE, TWO[:0], NAME),
        "no reports, and no width": patched(6, bytes(2), encode(DIGEST, PANE, TWO[:0])),
        "JSON without reports": text(reports="").encode(),
        "reports of no width": patched(6, bytes(2), GOOD[:40]),
        "more reports than there are": patched(32, b"\xff" * 4),
        "the most reports of the greatest width": patched(6, b"\xff\xff", patched(32, b"\xff" * 4)),
        "a tick with a byte too many": TICK + b"\0",
        "a tick of another version": patched(4, b"\2", TICK),
        "a byte order mark": b"\xef\xbb\xbf" + text().encode(),
        "UTF-16": text().encode("utf-16-le"),
        "JSON that is not UTF-8": text().encode().replace(b"pane", b"p\xe4ne"),
    }
    cases = [{"name": name, **shown(data), "reason": "malformed"} for name, data in (binary | bad_json()).items()]
    for name, data, width in [
        ("JSON with half a report", text(reports="GgAAAAw="), 4),
        ("reports of another width", GOOD, 8),
    ]:
        cases.append({"name": name, **shown(data), "query_width": width, "reason": "malformed"})
    for name, data in [("a frame", GOOD), ("JSON", text()), ("junk", "?" * 48)]:
        cases.append({"name": f"{name} over the limit", **shown(data), "limit": 47, "reason": "too_large"})
    return cases


def bad_json():
    frame = text()
    variants = {
        "a digest of 15 digits": {"digest": DIGEST.hex()[1:]},
        "a digest of 17 digits": {"digest": DIGEST.hex() + "0"},
        "a digest with a letter that is no digit": {"digest": "g" + DIGEST.hex()[1:]},
        "a digest with a line end": {"digest": DIGEST.hex() + "\n"},
        "a digest with digits that are not ASCII": {"digest": "\uff11" + DIGEST.hex()[1:]},
        "a digest that is a number": {"digest": 1234567890123456},
        "no digest": {"digest": None},
        "no pane": {"pane": None},
        "no reports": {"reports": None},
        "a pane that is a string": {"pane": str(PANE)},
        "a pane with a fraction": {"pane": float(PANE)},
        "a pane that is true": {"pane": True},
        "a pane that is a list": {"pane": [PANE]},
        "a pane of 2^63": {"pane": 1 << 63},
        "a pane of -2^63 - 1": {"pane": -(1 << 63) - 1},
        "a pane of 2^64": {"pane": 1 << 64},
        "an empty id": {"id": ""},
        "an id that is a number": {"id": 1},
        "reports that are a list": {"reports": [26]},
        "reports that are a number": {"reports": 26},
        "base64 without padding": {"reports": "GgAAAAwAAAA"},
        "base64 with padding too much": {"reports": "GgAAAAwAAAA=="},
        "base64 with padding in the middle": {"reports": "GgAAAA==DAAAAA=="},
        "base64 with unused bits that are not zero": {"reports": "GgAAAAwAAAB="},
        "base64 with a line end": {"reports": "GgAAAAwA\nAAA="},
        "base64 of the alphabet for addresses": {"reports": "__-_"},
        "base64 with a letter that is not ASCII": {"reports": "\xfcAAA"},
        "an unknown key": {"width": 4},
        "a group that is a string": {"group": "ios"},
        "a group that is a number": {"group": 1},
        "a group without a name": {"group": {}},
        "a group with two names": {"group": {"platform": "ios", "version": "1"}},
        "a group whose value is a number": {"group": {"platform": 1}},
        "a group whose value is a list": {"group": {"platform": ["ios"]}},
        "a group whose value is an object": {"group": {"platform": {}}},
        "a group whose value has a colon": {"group": {"platform": "ios:17"}},
        "an unknown key in place of the id": {"id": None, "ID": NAME.hex()},
    }
    others = {
        "JSON that is a list": f"[{frame}]",
        "JSON that is a string": json.dumps(frame),
        "an empty object": "{}",
        "an id of null": text(id=0).replace('"id": 0', '"id": null'),
        "a group of null": text(group=0).replace('"group": 0', '"group": null'),
        "a group that stands twice": text(group={"platform": "ios"})[:-1] + ', "group": {"platform": "ios"}}',
        "a group with a name that stands twice": text(id=None, group={"p": "a"}).replace('"p"', '"p": "a", "p"'),
        "a key that stands twice": frame[:-1] + f', "pane": {PANE}' + "}",
        "a key that stands twice, one id left out": text(id=None)[:-1] + f', "pane": {PANE}' + "}",
        "a key that stands twice, once with escapes": text(id=None)[:-1] + f', "p\\u0061ne": {PANE}' + "}",
        "an object in place of a value": frame.replace(str(PANE), '{"pane": 1}'),
        "JSON that is cut short": frame[:-1],
        "JSON with something after it": frame + "x",
        "JSON with a second frame": frame + frame,
        "a number with a leading zero": frame.replace(str(PANE), f"0{PANE}"),
        "a pane that is NaN": frame.replace(str(PANE), "NaN"),
        "a comma too many": frame[:-1] + ",}",
        "white space only": " \n",
        "nothing but a brace": "{",
    }
    return {name: text(**changes) for name, changes in variants.items()} | others


def frames():
    names = [NAME, bytes.fromhex("0100000000000000"), b"\xff" * 8, bytes.fromhex("00000000000000f0")]
    return {
        "good": good_frames(),
        "bad": bad_frames(),
        "partitions": [
            {"id": name.hex(), "partitions": count, "partition": partition_of(name, count)}
            for name in names
            for count in (1, 3, 12, 1000)
        ],
    }
