"""Tokens, with the quotas of their senders. The file has hashes of tokens, and the keys that sign short-lived tokens.

A short-lived token is `hbs1.NAME.EXPIRY.SALT.MAC`. NAME is the name of its key, and EXPIRY is a time in Unix seconds.
SALT is 16 random bytes in hex, and names the token's quota. MAC is the HMAC-SHA-256, in hex, of the text before it.
"""

import hmac
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

from hubbub.http.fair_shares import CallerPath
from hubbub.http.problem import Problem
from oracles.query.settings import Place, Rule, instead, several, table, whole
from oracles.query.text import read_toml

log = logging.getLogger(__name__)

_HEX = re.compile("[0-9a-f]{64}")
_EXPIRY = re.compile("[0-9]{1,10}")
"""Seconds up to the year 2286. A time in milliseconds has more digits, and would be valid for thousands of years."""
_SALT = re.compile("[0-9A-Fa-f]{32}")
_SHORT_LIVED = "hbs1"
NAME = "name "
"""The beginning of a name in the path of a caller. No network begins like this."""
SALT = "salt "
"""The beginning of a salt in the path of a caller."""
_CALLERS = 4_096
"""Callers with tokens in memory, because most of them come again."""
_PAIR = 2
"""Hashes or keys that are valid at a time, so that a new one can replace an old one."""
TOKENS = 1_000
"""Limit of names in a file, because each request is compared with all of them."""

_HASHES = Rule("64 hex digits in lower case", lambda text: isinstance(text, str) and bool(_HEX.fullmatch(text)))
UNLIMITED = "unlimited"
"""The word for no quota."""
_COUNT = instead(whole("a whole number of reports a pane", 0), UNLIMITED, 0)


@dataclass(frozen=True, slots=True)
class Account:
    """The tokens, keys and quotas under one name."""

    name: str
    hashes: tuple[bytes, ...] = ()
    keys: tuple[bytes, ...] = ()
    quota: int = 0
    """Limit of reports a pane, over all tokens of this name; 0: no limit."""
    each: int = 0
    """Limit of reports a pane for each short-lived token; 0: no limit."""
    has_decided_quota: bool = True
    """Whether the file has a number, or says in words that there is no limit."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request."""

    account: Account
    salt: str = ""
    """The salt of a short-lived token, else empty."""
    network: CallerPath = ()
    """The networks of the sender, the widest first."""
    address: str = ""
    """The address of a sender without a token, else empty."""

    @property
    def path(self) -> CallerPath:
        """The groups of this sender: the name of its token, its networks, and its short-lived token."""
        if not self.account.name:
            return self.network
        return f"{NAME}{self.account.name}", *self.network, f"{SALT}{self.salt}" if self.salt else ""

    @property
    def key(self) -> tuple[str, str]:
        """Return the name by which callers differ: a short-lived token, the name of other tokens, or an address."""
        return self.account.name, self.salt or self.address


ANYBODY = Account("")
"""The account of all senders to a gateway without tokens."""


class Tokens:
    """The accounts of a file."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts
        self._hashes: list[tuple[bytes, str]] = []
        for account in accounts.values():
            self._hashes += [(digest, account.name) for digest in account.hashes]
        self.undecided = tuple(name for name, account in accounts.items() if not account.has_decided_quota)
        """The names without a quota, for which the file does not say that there is no limit."""
        self._member = lru_cache(_CALLERS)(lambda name, network: Caller(accounts[name], network=network))

    @classmethod
    def read(cls, path: str | PathLike[str]) -> "Tokens":
        """Read a TOML file with tables `[tokens.NAME]` of sha256, keys, quota and each."""
        place = Place(str(path))
        tables = table(table(read_toml(Path(path), place), place, ("tokens",)).get("tokens", {}), place / "tokens")
        if not 1 <= len(tables) <= TOKENS:
            raise (place / "tokens").error(f"must be 1 to {TOKENS} tables [tokens.NAME], got {len(tables)}")
        return cls({name: _account(name, value, place / "tokens" / name) for name, value in tables.items()})

    def warn_of_undecided(self) -> None:
        for name in self.undecided:
            advice = f'Set a number, or quota = "{UNLIMITED}".'
            log.warning("Token %r has no quota, so its holder can decide every result. %s", name, advice)

    def caller(self, authorization: str | None, time_s: float, network: CallerPath = ()) -> Caller:
        """Return the sender of an Authorization header, or raise a Problem if the token is invalid at this time."""
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise unauthorized("The request has no token. Send a header Authorization: Bearer TOKEN.")
        if token.startswith(_SHORT_LIVED + "."):
            return self._short_lived(token, time_s, network)

        token_hash = sha256(token.encode(errors="surrogateescape")).digest()
        name = None
        for digest, candidate in self._hashes:  # compare with all, so that the time reveals nothing
            if hmac.compare_digest(digest, token_hash):
                name = candidate

        if name is None:
            raise unauthorized("The token is unknown. Get a valid one from the operator of the gateway.")
        return self._member(name, network)

    def _short_lived(self, token: str, time_s: float, network: CallerPath) -> Caller:
        text, _, mac = token.rpartition(".")
        head, _, salt = text.rpartition(".")
        head, _, expiry = head.rpartition(".")

        account = self._accounts.get(head.removeprefix(_SHORT_LIVED + "."))
        is_valid = False
        # All keys are tried, so that the time does not reveal which one signs.
        keys = account.keys if account else ()
        for key in keys:
            is_valid |= hmac.compare_digest(_mac(key, text).encode(), mac.encode(errors="surrogateescape"))
        if account is None or not is_valid:
            raise _unusable("has no valid signature")

            raise _unusable("has no valid signature")
        # Checked after the signature, so that only the holder of a signed token learns its fault.
        if not _EXPIRY.fullmatch(expiry):
            raise _unusable("has an expiry that is not a time in Unix seconds of at most 10 digits")
        if not _SALT.fullmatch(salt):
            raise _unusable("has a salt that is not 16 bytes in hex")
        if int(expiry) <= time_s:
            raise _unusable("has expired")
        return Caller(account, salt, network)


def unauthorized(detail: str) -> Problem:
    return Problem(401, detail)


def _unusable(fault: str) -> Problem:
    return unauthorized(f"The short-lived token {fault}. Ask your application's server for another.")


def short_lived(name: str, key: bytes, expiry: int) -> str:
    """Make a token that is valid before `expiry`, in Unix seconds."""
    text = f"{_SHORT_LIVED}.{name}.{expiry}.{secrets.token_hex(16)}"
    return f"{text}.{_mac(key, text)}"


def _mac(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(errors="surrogateescape"), sha256).hexdigest()


def _account(name: str, value: Any, place: Place) -> Account:
    settings = table(value, place, ("sha256", "keys", "quota", "each"))
    hashes, keys = (_pair(settings, key, place) for key in ("sha256", "keys"))
    if not hashes and not keys:
        raise place.error("needs sha256 (hashes of tokens) or keys (which sign short-lived tokens)")
    if settings.get("each") and not keys:
        raise (place / "each").error("works only with short-lived tokens, which need keys")
    quota = _COUNT(settings.get("quota", 0), place / "quota")
    token_quota = _COUNT(settings.get("each", 0), place / "each")
    # Files of older releases leave the quota out, or say 0.
    has_decided_quota = settings.get("quota", 0) != 0
    return Account(name, hashes, keys, quota, token_quota, has_decided_quota)


def _pair(settings: Mapping[str, Any], key: str, place: Place) -> tuple[bytes, ...]:
    if key not in settings:
        return ()
    texts = several(settings[key], place / key, _HASHES)
    if len(texts) > _PAIR:
        raise (place / key).error(f"must have at most {_PAIR}, an old and a new one, got {len(texts)}")
    return tuple(bytes.fromhex(text) for text in texts)
