"""Tokens: who may send, and how much. The file holds hashes; of short-lived tokens, the keys that sign them.

A short-lived token is `hbs1.NAME.EXPIRY.SALT.MAC`: NAME is that of its key, EXPIRY Unix seconds,
SALT 16 random bytes and MAC the HMAC-SHA-256 of all before it, both in hex.
"""

import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

from hubbub.problem import Problem
from oracles.query.settings import Place, Rule, several, table, whole
from oracles.query.text import read_toml

_HEX = re.compile("[0-9a-f]{64}")
_NUMBER = re.compile("[0-9]{1,15}")
_SHORT = "hbs1"
_PAIR = 2
"""Valid at a time, while one is replaced by the other."""
TOKENS = 1_000
"""Names in a file: each request is compared with all of them."""

_HASHES = Rule("64 hex digits in lower case", lambda text: isinstance(text, str) and bool(_HEX.fullmatch(text)))
_COUNT = whole("a whole number of reports a pane, 0 for no limit", 0)


@dataclass(frozen=True, slots=True)
class Account:
    """The tokens, keys and quotas under one name."""

    name: str
    hashes: tuple[bytes, ...] = ()
    keys: tuple[bytes, ...] = ()
    quota: int = 0
    """Reports a pane of all that has this name; 0 for no limit."""
    each: int = 0
    """Reports a pane of one short-lived token; 0 for no limit."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request."""

    account: Account
    salt: str = ""
    """Of a short-lived token."""


ANYBODY = Caller(Account(""))
"""Who sends where no token is asked for."""


class Tokens:
    """The accounts of a file."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts
        self._hashes = [(digest, Caller(account)) for account in accounts.values() for digest in account.hashes]

    @classmethod
    def read(cls, path: str | PathLike[str]) -> "Tokens":
        """A TOML file: `[tokens.NAME]` with sha256, keys, quota and each."""
        at = Place(str(path))
        found = table(table(read_toml(Path(path), at), at, ("tokens",)).get("tokens", {}), at / "tokens")
        if not 1 <= len(found) <= TOKENS:
            raise (at / "tokens").error(f"must be 1 to {TOKENS} tables [tokens.NAME], got {len(found)}")
        return cls({name: _account(name, value, at / "tokens" / name) for name, value in found.items()})

    def caller(self, authorization: str | None, now: float) -> Caller:
        """Who sends this header at a time; a Problem where nobody does."""
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise unauthorized("send a token: Authorization: Bearer TOKEN")
        if token.startswith(_SHORT + "."):
            return self._short_lived(token, now)
        given, caller = sha256(token.encode(errors="surrogateescape")).digest(), None
        for digest, candidate in self._hashes:  # all of them, so that the time tells nothing
            if hmac.compare_digest(digest, given):
                caller = candidate
        if caller is None:
            raise unauthorized("this token is not known")
        return caller

    def _short_lived(self, token: str, now: float) -> Caller:
        signed, _, mac = token.rpartition(".")
        head, _, salt = signed.rpartition(".")
        head, _, expiry = head.rpartition(".")
        account = self._accounts.get(head.removeprefix(_SHORT + "."))
        valid = False
        for key in account.keys if account else ():
            valid |= hmac.compare_digest(_mac(key, signed).encode(), mac.encode(errors="surrogateescape"))
        if account is None or not valid or not _NUMBER.fullmatch(expiry):
            raise unauthorized("this short-lived token is not signed by a key that is known")
        if int(expiry) <= now:
            raise unauthorized("this short-lived token has expired: ask for another")
        return Caller(account, salt)


def unauthorized(detail: str) -> Problem:
    return Problem(401, detail)


def short_lived(name: str, key: bytes, expiry: int) -> str:
    """A token that is valid before `expiry`, in Unix seconds."""
    signed = f"{_SHORT}.{name}.{expiry}.{secrets.token_hex(16)}"
    return f"{signed}.{_mac(key, signed)}"


def _mac(key: bytes, signed: str) -> str:
    return hmac.new(key, signed.encode(errors="surrogateescape"), sha256).hexdigest()


def _account(name: str, value: Any, at: Place) -> Account:
    given = table(value, at, ("sha256", "keys", "quota", "each"))
    hashes, keys = (_several(given, key, at) for key in ("sha256", "keys"))
    if not hashes and not keys:
        raise at.error("needs sha256, the hashes of tokens, or keys, which sign short-lived ones")
    if given.get("each") and not keys:
        raise (at / "each").error("is for short-lived tokens, which need keys")
    quota, each = (_COUNT(given.get(key, 0), at / key) for key in ("quota", "each"))
    return Account(name, hashes, keys, quota, each)


def _several(given: Mapping[str, Any], key: str, at: Place) -> tuple[bytes, ...]:
    if key not in given:
        return ()
    found = several(given[key], at / key, _HASHES)
    if len(found) > _PAIR:
        raise (at / key).error(f"holds at most {_PAIR}, the old and the new, got {len(found)}")
    return tuple(bytes.fromhex(text) for text in found)
