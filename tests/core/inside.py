"""The parts inside of the core, as tests call them: sources of bytes, oracles and tables."""

import ctypes

from tests.core.compiler import library

KINDS = ("grr", "sue", "oue", "ss", "blh", "olh", "full", "short", "hr", "haar", "sub")
FAMILIES = ("full", "short", "line")
ROWS = 11
WORDS = 18
PURPOSES = ("attribute", "rows", "answer")


class Integer(ctypes.Structure):
    _fields_ = [("word", ctypes.c_uint32 * WORDS)]


class Sha256(ctypes.Structure):
    _fields_ = [("state", ctypes.c_uint32 * 8), ("size", ctypes.c_uint64), ("block", ctypes.c_uint8 * 64)]


class Hmac(ctypes.Structure):
    _fields_ = [("inner", Sha256), ("outer", Sha256)]


class Stream(ctypes.Structure):
    _fields_ = [
        ("attribute", ctypes.c_uint64),
        ("mode", ctypes.c_uint8),
        ("purpose", ctypes.c_int),
        ("number", ctypes.c_int64),
        ("answer_class", ctypes.c_int64),
    ]


class Source(ctypes.Structure):
    _fields_ = [
        ("mac", Hmac),
        ("fields", ctypes.c_uint8 * 32),
        ("size", ctypes.c_uint),
        ("position", ctypes.c_uint64),
        ("loaded", ctypes.c_uint64),
        ("block", ctypes.c_uint8 * 32),
        ("bytes", ctypes.c_char_p),
    ]


class Table(ctypes.Structure):
    _fields_ = [
        ("buckets", ctypes.c_uint),
        ("points", ctypes.c_uint),
        ("hi", ctypes.c_uint64),
        ("lo", ctypes.c_uint64),
    ]


class Oracle(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("family", ctypes.c_int),
        ("size", ctypes.c_uint64),
        ("rows", ctypes.c_uint),
        ("bits", ctypes.c_uint),
        ("members", ctypes.c_uint64),
        ("threshold", ctypes.c_uint64),
        ("other", ctypes.c_uint64),
        ("has_table", ctypes.c_int),
        ("table", Table),
        ("classes", ctypes.c_uint64),
        ("width", ctypes.c_uint64),
    ]


Rows = ctypes.c_uint64 * ROWS


def bits_of(number):
    """Return the bits of a float."""
    return ctypes.c_uint64.from_buffer_copy(ctypes.c_double(number))


def exponential(epsilon):
    """Return e^epsilon as the core computes it."""
    result = Integer()
    library().hb_exponential_of(ctypes.byref(result), bits_of(epsilon), 0)
    return result


def oracle_of(name, epsilon, size, thresholds, points=None, maps=None):
    """Return the oracle to which thresholds belong, as `hubbub_open` finds it. `maps` has the settings of sub."""
    oracle = Oracle()
    e = exponential(epsilon)
    assert library().hb_oracle_begin(ctypes.byref(oracle), KINDS.index(name), ctypes.c_uint64(size))
    if maps:
        oracle.family = FAMILIES.index(maps["rows"])
        oracle.members = maps["subset"]
    for choice in range(ROWS):
        if not library().hb_oracle_choice(ctypes.byref(oracle), choice, bits_of(epsilon), ctypes.byref(e)):
            continue
        if maps and library().hb_oracle_buckets(ctypes.byref(oracle)) != maps["buckets"]:
            continue
        if points is None and _threshold(thresholds) == (oracle.threshold, oracle.other):
            return oracle
        if points is not None:
            buckets = library().hb_oracle_buckets(ctypes.byref(oracle))
            table = Table(buckets, points, int(thresholds["hi"]), int(thresholds["lo"]))
            if library().hb_table_fits(ctypes.byref(table), ctypes.byref(e)):
                library().hb_oracle_table(ctypes.byref(oracle), ctypes.byref(table))
                return oracle
    raise AssertionError(f"no {name} of epsilon {epsilon} has the thresholds {thresholds}")


def _threshold(thresholds):
    return int(thresholds.get("T", thresholds.get("T_p", 0))), int(thresholds.get("T_q", 0))


def of_bytes(entropy):
    """Return a source of given bytes."""
    return Source(bytes=entropy)


def of_key(key, digest, **fields):
    """Return the stream of a key."""
    mac, source = Hmac(), Source()
    stream = Stream(**fields)
    library().hb_hmac_begin(ctypes.byref(mac), key)
    library().hb_source_begin(ctypes.byref(source), ctypes.byref(mac), digest, ctypes.byref(stream))
    return source


def rows_of(oracle, source):
    """Return the rows of a report. Oracles without rows draw nothing."""
    rows = Rows()
    if library().hb_is_hashing(ctypes.byref(oracle)):
        library().hb_rows_of(ctypes.byref(oracle), ctypes.byref(source), rows)
    return rows


def class_of(oracle, position, rows):
    """Return the class of a position."""
    library().hb_class_of.restype = ctypes.c_uint64
    return library().hb_class_of(ctypes.byref(oracle), ctypes.c_uint64(position), rows)


def report_of(oracle, answer_class, rows, source):
    """Return the report of a class."""
    report = ctypes.create_string_buffer(oracle.width)
    work = ctypes.create_string_buffer(4 * oracle.size) if oracle.kind == KINDS.index("ss") else None
    library().hb_report(ctypes.byref(oracle), ctypes.c_uint64(answer_class), rows, ctypes.byref(source), report, work)
    return report.raw


def below(source, bound):
    """Return a uniform integer below a bound."""
    library().hb_below.restype = ctypes.c_uint64
    return library().hb_below(ctypes.byref(source), ctypes.c_uint64(bound))
