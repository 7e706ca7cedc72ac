"""A device with the core in C: its public calls, and a store in memory."""

import ctypes
import json
import unicodedata
from dataclasses import dataclass, field

from tests.core.compiler import library

CODES = (
    "OK",
    "NotYet",
    "BudgetSpent",
    "NotAllowed",
    "ReportError",
    "StoreError",
    "NoSpace",
    "Misuse",
    "NewKey",
)
TEXT, INTEGER, NUMBER = range(3)
QUERY_BYTES = 32768
MOST_STATE = 1 << 20
MOST_ITEM = 1 << 16


class Text(ctypes.Structure):
    _fields_ = [("at", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class Buffer(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t), ("room", ctypes.c_size_t)]


class Value(ctypes.Structure):
    _fields_ = [
        ("attribute", Text),
        ("kind", ctypes.c_int),
        ("text", Text),
        ("integer", ctypes.c_int64),
        ("number", ctypes.c_double),
    ]


Normal = ctypes.CFUNCTYPE(
    ctypes.c_size_t, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t
)


class Limits(ctypes.Structure):
    _fields_ = [
        ("key", ctypes.c_char_p),
        ("now", ctypes.c_int64),
        ("max_epsilon", ctypes.c_double),
        ("per", ctypes.c_int64),
        ("machine", Text),
        ("moved", ctypes.c_int),
        ("group", Text),
        ("normal", Normal),
        ("sample", ctypes.c_double),
        ("kept", Text),
        ("first", ctypes.c_int),
    ]


class Account(ctypes.Structure):
    _fields_ = [
        ("spent", ctypes.c_double),
        ("remaining", ctypes.c_double),
        ("counted", ctypes.c_double),
        ("life", ctypes.c_double),
        ("due", ctypes.c_double),
        ("round", ctypes.c_int64),
        ("lengthened", ctypes.c_int),
        ("digest", ctypes.c_uint8 * 8),
        ("group", ctypes.c_uint32),
    ]


@Normal
def normal_form(text, size, to, room):
    """Write the normal form C of a text, as a host does."""
    form = unicodedata.normalize("NFC", ctypes.string_at(text, size).decode()).encode()
    ctypes.memmove(to, form, min(room, len(form)))
    return len(form)


def text_of(text):
    """Return a text of the core, of a str, bytes or None."""
    data = text.encode() if isinstance(text, str) else text
    return Text(data, len(data)) if data is not None else Text(None, 0)


def buffer_of(room, content=b""):
    """Return a buffer with a content, and the memory that it points to."""
    memory = ctypes.create_string_buffer(max(1, room))
    ctypes.memmove(memory, content, len(content))
    return Buffer(ctypes.addressof(memory), len(content), room), memory


def content_of(buffer):
    return ctypes.string_at(buffer.at, buffer.size)


def opened(body, name, pinned=None):
    """Return the code of opening a query, and the query. Its texts live as long as it."""
    query = (ctypes.c_uint64 * (QUERY_BYTES // 8))()
    texts = [text_of(body), text_of(name), text_of(pinned)]
    code = library().hubbub_open(query, *texts)
    query.texts = texts
    return CODES[code], query


def query_of(definition, pinned=None):
    """Open the query of an item, as a gateway lists it."""
    body = json.dumps(definition, ensure_ascii=False).encode()
    return opened(body, definition["name"], json.dumps(pinned) if pinned else None)


def room_of(query, call):
    """Return the bytes of a frame or of the work memory."""
    function = getattr(library(), f"hubbub_{call}_room")
    function.restype = ctypes.c_size_t
    return function(query)


def value_of(answer, attribute=None):
    """Return one value of an answer."""
    value = Value(attribute=text_of(attribute))
    if isinstance(answer, str | bytes):
        value.kind, value.text = TEXT, text_of(answer)
    elif isinstance(answer, int):
        value.kind, value.integer = INTEGER, answer
    else:
        value.kind, value.number = NUMBER, answer
    return value


def values_of(answer):
    """Return the values of an answer: one, or one for each attribute."""
    if isinstance(answer, dict):
        values = [value_of(each, attribute) for attribute, each in answer.items()]
    else:
        values = [value_of(answer)]
    return (Value * len(values))(*values), len(values)


@dataclass
class Device:
    """A device with a key, the limits of its application, and its state."""

    key: bytes
    max_epsilon: float = 8.0
    per: int | None = None
    group: str | None = None
    machine: bytes | None = None
    state: bytes = b""
    item: bytes = b""
    has_moved: bool = False
    first: bool = True
    fields: dict = field(default_factory=dict)

    def limits(self, now):
        return Limits(
            key=self.key,
            now=now,
            max_epsilon=self.max_epsilon,
            per=self.per or 0,
            machine=text_of(self.machine),
            moved=self.has_moved,
            group=text_of(self.group),
            normal=normal_form,
            kept=text_of(self.item or None),
            first=self.first,
            **self.fields,
        )

    def bind(self, now=0):
        """Begin the state or check it, and return the code."""
        state, memory = buffer_of(len(self.state) + 1024 + 5 * len(self.item), self.state)
        code = library().hubbub_bind(ctypes.byref(state), ctypes.byref(self.limits(now)))
        if not code:
            self.state = content_of(state)
        del memory
        return CODES[code]

    def answer(self, query, value, now):
        """Answer, and return the code and the frame. The state is new if the core says so."""
        width = room_of(query, "frame")
        state, state_memory = buffer_of(len(self.state) + 1024 + width, self.state)
        frame, frame_memory = buffer_of(width)
        work, work_memory = buffer_of(room_of(query, "work"))
        values, count = values_of(value)
        limits = self.limits(now)
        buffers = [ctypes.byref(buffer) for buffer in (state, frame, work)]
        code = CODES[library().hubbub_answer(query, ctypes.byref(limits), values, ctypes.c_size_t(count), *buffers)]
        if code in ("OK", "ReportError"):
            self.state = content_of(state)
        else:
            assert content_of(state) == self.state
        report = content_of(frame) if code == "OK" else None
        del state_memory, frame_memory, work_memory
        return code, report

    def account(self, query, now):
        """Return the charges of the device."""
        state, memory = buffer_of(len(self.state), self.state)
        account = Account()
        code = library().hubbub_account_of(
            query, ctypes.byref(self.limits(now)), ctypes.byref(state), ctypes.byref(account)
        )
        assert code == 0, CODES[code]
        del memory
        return account

    def keep(self):
        """Return the item of the key store, without the key."""
        state, memory = buffer_of(len(self.state), self.state)
        item, item_memory = buffer_of(MOST_ITEM)
        code = library().hubbub_keep(ctypes.byref(self.limits(0)), ctypes.byref(state), ctypes.byref(item))
        assert code == 0, CODES[code]
        self.item = content_of(item)
        del memory, item_memory
        return self.item
