"""The objects of a store below one prefix. Its errors become OSErrors that name no address and no key."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from oracles.errors import ParameterError, extra

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("s3", "gs", "az")
"""The kinds of stores: S3 and its relatives, Google Cloud Storage, and Azure."""
RETRIES = 2
"""Tries that the library adds to each request. The sink counts and reports what fails after them."""

Version = Mapping[str, str]
"""What tells one content of an object from the next: its ETag, and its generation if the store has one."""
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,40})</Code>")


class Conflict(Exception):
    """A conditional write that the store refused, because the object is there or has another version."""


def is_store(text: str) -> bool:
    """Whether a text is the address of an object store."""
    return "://" in text and text.partition("://")[0] in SCHEMES


def unknown_kind(text: str) -> ParameterError:
    """Return the error about an address of another kind of store."""
    names = ", ".join(SCHEMES)
    return ParameterError(f"{text.partition(':')[0]}: is no kind of store; name a folder, or one of {names}")


class Objects:
    """The objects below one address, such as s3://BUCKET/PREFIX. The environment has the keys and the region."""

    def __init__(self, address: str) -> None:
        with extra("sink"):
            from obstore.store import from_url

        self._address = address
        with self._faults("open"):
            # Options of the client given here would replace all those of the environment, such as AWS_ALLOW_HTTP.
            self._store: ObjectStore = from_url(address, retry_config={"max_retries": RETRIES})

    def __str__(self) -> str:
        return self._address

    def get(self, path: str) -> tuple[bytes, Version] | None:
        """Return the content of an object and its version, or None if there is none."""
        import obstore

        with self._faults("read"):
            try:
                answer = obstore.get(self._store, path)
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise
                return None
            return bytes(answer.bytes()), _version(answer.meta["e_tag"], answer.meta["version"])

    def put(self, path: str, content: bytes, condition: Version | Literal["create", "overwrite"]) -> Version:
        """Write an object and return its version. Raise Conflict if it has another version than the condition."""
        import obstore

        mode = condition if isinstance(condition, str) else dict(condition)
        with self._faults("write"):
            # An upload in parts has no condition, and a part alone is no object.
            result = obstore.put(self._store, path, content, mode=mode, use_multipart=False)  # type: ignore[arg-type]
            return _version(result["e_tag"], result["version"])

    def delete(self, path: str) -> None:
        import obstore

        with self._faults("delete"):
            obstore.delete(self._store, path)

    def times(self, folder: str) -> dict[str, float]:
        """Return the time of the last change of each object below a folder, by its path."""
        import obstore

        with self._faults("list"):
            pages = obstore.list(self._store, f"{folder}/")
            return {item["path"]: item["last_modified"].timestamp() for page in pages for item in page}

    @contextmanager
    def _faults(self, act: str) -> Iterator[None]:
        from obstore import exceptions

        try:
            yield
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
            raise Conflict from error
        except (exceptions.BaseError, FileNotFoundError) as error:
            # The library's texts have the address and the answer of the store, so they are not passed on.
            raise OSError(f"{self._address}: cannot {act} ({_reason(error)})") from None


def _version(tag: str | None, generation: str | None) -> Version:
    return {name: text for name, text in (("e_tag", tag), ("version", generation)) if text is not None}


def _reason(error: Exception) -> str:
    from obstore import exceptions

    text = str(error)
    status = _STATUS.search(text)
    code = _CODE.search(text)
    if status is not None:
        name = f", {code[1]}" if code is not None else ""
        return f"the store answers {status[1]}{name}"
    if isinstance(error, exceptions.UnauthenticatedError | exceptions.PermissionDeniedError):
        return "the store refuses the credentials"
    return "the store does not answer, or its answer is cut off"
