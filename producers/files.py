"""Files and folders that only this user can change, for keys, stores and reports that wait."""

import os
import secrets
import stat
from pathlib import Path

from hubbub.disk import sync_folder
from producers.errors import StoreError

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_OTHERS = 0o077


def check_folder(path: str | os.PathLike[str]) -> None:
    """Refuse a folder in which everybody may make and rename files."""
    folder = Path(path)
    state = _state(folder)
    if state is None:
        return  # the first write names the missing folder
    if not stat.S_ISDIR(state.st_mode):
        raise StoreError(f"{folder} is no folder; remove it, or name another one")

    is_shared = state.st_mode & 0o002 and not (state.st_mode & stat.S_ISVTX and state.st_uid == 0)
    if is_shared and _is_own(state):
        raise StoreError(f"others may write to {folder}, and so replace its files; run: chmod o-w {folder}")
    if is_shared:
        inside = folder / "hubbub"
        raise StoreError(
            f"others may write to {folder}, and so replace its files; run: mkdir -m 700 {inside}, and use that folder"
        )


def check_file(path: str | os.PathLike[str]) -> None:
    """Refuse a path that is no file of this user, and remove the rights of others to the file.

    It is by name, because opening and closing a store here would drop the SQLite locks of this process.
    """
    file = Path(path)
    state = _state(file, follow=False)
    if state is None:
        return
    if stat.S_ISDIR(state.st_mode):
        raise StoreError(f"{file} is a folder; name a file inside it")
    if not stat.S_ISREG(state.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(state.st_mode) else "no regular file"
        raise StoreError(f"{file} is {kind}, and hubbub reads and writes only files of its own; run: rm {file}")
    if not _is_own(state):
        raise StoreError(f"{file} belongs to user {state.st_uid}, not to this one; run: chown {os.geteuid()} {file}")
    if state.st_mode & _OTHERS:
        try:
            file.chmod(0o600)
        except OSError as error:
            raise StoreError(
                f"{file} is open to other users, and this cannot be changed; run: chmod 600 {file}"
            ) from error


def read_file(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the first `most` bytes of a file of this user. A FIFO or a link is refused and never waited for."""
    check_file(path)
    # The file may be replaced after the check, so the open one counts too.
    handle = os.open(path, os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            raise StoreError(f"{path} is no regular file; run: rm {path}")
        # A read of `most` bytes takes their memory at once, however small the file is.
        return file.read(min(most, state.st_size))


def make_file(path: str | os.PathLike[str], data: bytes | memoryview) -> None:
    """Make a file that nobody else can open. Raise FileExistsError if the name exists, also as a link."""
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _NO_FOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        # Without this a power failure could leave an empty file.
        os.fsync(handle)


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file. It gets its name only after all bytes are on disk, and its folder is on disk then too."""
    file = Path(path)
    # A name that others cannot guess, so that they cannot make it first.
    draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}.new")
    try:
        make_file(draft, data)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(file.parent)


def _state(path: Path, *, follow: bool = True) -> os.stat_result | None:
    try:
        return path.stat(follow_symlinks=follow)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be used: {error.strerror}") from error


def _is_own(state: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or state.st_uid == os.geteuid()
