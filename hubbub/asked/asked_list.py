"""One list of what is asked, as a file and as a gateway serves it."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from hubbub.asked.document import canonical, hash_of
from oracles.errors import HubbubError
from oracles.query.settings import NAME

FIRST_PREVIOUS = "0" * 64
"""The hash before the first list."""
LARGEST_SERVED = 1 << 20
"""Bytes of the largest list that a device reads."""
MOST_DOCUMENTS = 2
"""Documents of a name: the present one, and one that replaces it or is replaced."""
LONGEST_APPLICATION = 200
_DOMAIN = b"hubbub asked 1\n"
"""First bytes of what is signed, so that no signature for another purpose fits."""
_LATEST = 1 << 53
"""Every whole number below is the same in all languages."""
_HASH = re.compile(r"[0-9a-f]{64}")
_SIGNATURE = re.compile(r"[0-9a-f]{128}")


class AskedError(HubbubError):
    """A list that is malformed, not signed, expired, or that does not follow from the list before."""


@dataclass(frozen=True)
class AskedQuestion:
    """A definition that may be answered: the hash of its document, and the document if the list has it."""

    sha256: str
    document: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class AskedList:
    """One numbered list."""

    application: str
    number: int
    previous: str
    """Hash of the list before, 64 zeros for the first."""
    made: int
    expires: int
    queries: Mapping[str, tuple[AskedQuestion, ...]]
    signatures: tuple[tuple[str, str], ...] = ()
    """Public keys with their signatures, both in hex."""

    @property
    def signed_bytes(self) -> bytes:
        """The bytes that people sign. Documents are bound by their hashes, so they may be left out."""
        return _DOMAIN + canonical(self._content(with_documents=False))

    @property
    def hash(self) -> str:
        """The hash by which the next list names this one. Signatures may be added later without changing it."""
        return sha256(self.signed_bytes).hexdigest()

    @property
    def file(self) -> bytes:
        """The list with its documents, as people review it."""
        return self._bytes(with_documents=True)

    @property
    def served(self) -> bytes:
        """The list without documents, as devices read it."""
        return self._bytes(with_documents=False)

    def allows(self, name: str, sha256: str) -> bool:
        """Whether the document with this hash stands under this name."""
        return any(question.sha256 == sha256 for question in self.queries.get(name, ()))

    def signed(self, key: str, signature: str) -> "AskedList":
        """Return this list with one signature more."""
        if any(key == other for other, _ in self.signatures):
            raise AskedError(f"list {self.number} has a signature of the key {key} already")
        return replace(self, signatures=(*self.signatures, (key, signature)))

    def _bytes(self, *, with_documents: bool) -> bytes:
        signatures = [{"key": key, "signature": signature} for key, signature in self.signatures]
        return canonical({**self._content(with_documents=with_documents), "signatures": signatures})

    def _content(self, *, with_documents: bool) -> dict[str, Any]:
        def item(question: AskedQuestion) -> dict[str, Any]:
            has_document = with_documents and question.document is not None
            return {"sha256": question.sha256, **({"document": question.document} if has_document else {})}

        return {
            "application": self.application,
            "number": self.number,
            "previous": self.previous,
            "made": self.made,
            "expires": self.expires,
            "queries": {name: [item(question) for question in questions] for name, questions in self.queries.items()},
        }


def read_list(text: bytes) -> AskedList:
    """Return the list of a file or of an answer. It must be canonical JSON, byte for byte."""
    try:
        content = json.loads(text)
        result = _list_of(content)
    except (ValueError, RecursionError) as error:
        raise AskedError(f"not a list of what is asked: {error}") from None
    # Only one text of a list is right, so a list that somebody touched is refused even if its meaning stayed.
    if text not in (result.file, result.served):
        raise AskedError(f"list {result.number} is not in canonical JSON; somebody edited it")
    return result


def _list_of(content: Any) -> AskedList:
    def take(name: str, is_valid: Callable[[Any], bool], form: str) -> Any:
        value = content.get(name) if isinstance(content, dict) else None
        if not is_valid(value):
            raise ValueError(f"`{name}` must be {form}")
        return value

    return AskedList(
        application=take(
            "application", _is_application, f"a text of 1 to {LONGEST_APPLICATION} characters in one line"
        ),
        number=take("number", lambda value: _is_whole(value) and value > 0, "a whole number from 1"),
        previous=take("previous", _is_hash, "64 hexadecimal digits"),
        made=take("made", _is_whole, "a Unix time in whole seconds"),
        expires=take("expires", _is_whole, "a Unix time in whole seconds"),
        queries={
            name: _questions(name, items)
            for name, items in take("queries", lambda value: isinstance(value, dict), "an object").items()
        },
        signatures=tuple(
            map(_signature, take("signatures", lambda value: isinstance(value, list), "a list of signatures"))
        ),
    )


def _questions(name: str, items: Any) -> tuple[AskedQuestion, ...]:
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a query")
    if not isinstance(items, list) or not 1 <= len(items) <= MOST_DOCUMENTS:
        raise ValueError(f"{name} must have one or two documents")
    return tuple(_question(name, item) for item in items)


def _question(name: str, item: Any) -> AskedQuestion:
    if not isinstance(item, dict) or not _is_hash(item.get("sha256")):
        raise ValueError(f"{name}: `sha256` must be 64 hexadecimal digits")
    document = item.get("document")
    if document is None:
        return AskedQuestion(item["sha256"])
    if not isinstance(document, dict) or hash_of(document) != item["sha256"]:
        raise ValueError(f"{name}: the document does not have the SHA-256 that the list states")
    return AskedQuestion(item["sha256"], document)


def _signature(item: Any) -> tuple[str, str]:
    key, signature = (item.get("key"), item.get("signature")) if isinstance(item, dict) else (None, None)
    if not _is_hash(key) or not isinstance(signature, str) or not _SIGNATURE.fullmatch(signature):
        raise ValueError("a signature must have a `key` of 64 and a `signature` of 128 hexadecimal digits")
    return str(key), signature


def _is_application(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_APPLICATION and value.isprintable()


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LATEST


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None
