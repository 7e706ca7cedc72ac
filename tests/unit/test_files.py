"""Files of a device. Nobody else can plant, read or replace them, and each message has the command that repairs."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from oracles.frame import encode
from producers import FileKeyStore, Ledger, StoreError
from producers.publishers.frames import OutgoingFrame
from producers.publishers.spool import Spool


def paths(folder):
    """Return acts that open a file of each kind, by the file's path."""
    return {
        folder / "store": lambda: Ledger(folder / "store"),
        folder / "store.key": lambda: Ledger(folder / "store"),
        folder / "item": lambda: FileKeyStore(folder / "item").read(),
        folder / "0102030405060708.frame": lambda: list(Spool(folder).frames()),
    }


def command(error):
    return re.search(r"run: ([^;,]+)", str(error.value))[1]


@pytest.mark.parametrize("number", range(4))
def test_a_symbolic_link_is_refused(tmp_path, number):
    folder, target = tmp_path / "own", tmp_path / "elsewhere"
    folder.mkdir()
    path, act = list(paths(folder).items())[number]
    if path.suffix == ".key":
        Ledger(folder / "store")
        path.rename(target)
    else:
        target.write_bytes(bytes(32))
    path.symlink_to(target)
    with pytest.raises(StoreError, match="is a symbolic link") as error:
        act()
    assert command(error) == f"rm {path}"
    assert target.exists()


@pytest.mark.parametrize("number", range(4))
def test_a_fifo_is_refused_and_not_waited_for(tmp_path, number):
    """A frame that was a FIFO stopped a publisher at its start for ever."""
    path, act = list(paths(tmp_path).items())[number]
    if path.suffix == ".key":
        Ledger(tmp_path / "store")
        path.unlink()
    os.mkfifo(path)
    with pytest.raises(StoreError, match="no regular file") as error:
        act()
    assert command(error) == f"rm {path}"


@pytest.mark.parametrize("number", range(4))
def test_a_folder_that_everybody_may_write_to_is_refused_until_the_command_ran(tmp_path, number):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    _, act = list(paths(folder).items())[number]
    with pytest.raises(StoreError, match=r"others may write to .*open") as error:
        act()
    assert command(error) == f"chmod o-w {folder}"
    subprocess.run(command(error).split(), check=True)
    act()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("number", range(4))
def test_a_file_of_another_user_is_refused(tmp_path, number):
    path, act = list(paths(tmp_path).items())[number]
    Ledger(tmp_path / "store")
    if not path.exists():
        path.write_bytes(bytes(32))
    os.chown(path, 12_345, -1)
    with pytest.raises(StoreError, match="belongs to user 12345") as error:
        act()
    assert command(error) == f"chown 0 {path}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_shared_folder_of_another_user_needs_a_folder_inside(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    os.chown(folder, 12_345, -1)
    with pytest.raises(StoreError) as error:
        Ledger(folder / "store")
    assert command(error) == f"mkdir -m 700 {folder / 'hubbub'}"
    subprocess.run(command(error).split(), check=True)
    Ledger(folder / "hubbub" / "store")


def test_a_sticky_folder_of_root_is_allowed(tmp_path):
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    if os.geteuid() == 0:
        Ledger(folder / "store")
    else:
        with pytest.raises(StoreError):
            Ledger(folder / "store")


def test_no_open_handle_of_a_draft_reads_the_key(tmp_path, monkeypatch):
    """The name of the draft could be guessed, and a file that another user made there was written to."""
    names = []
    make = os.open

    def noted(path, flags, *more, **options):
        names.append((Path(path).name, flags))
        return make(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", noted)
    Ledger(tmp_path / "store")
    drafts = [(name, flags) for name, flags in names if name.endswith(".new")]
    assert len(drafts) == 2
    for name, flags in drafts:
        assert re.fullmatch(r"store(\.key)?\.[0-9a-f]{16}\.new", name)
        assert flags & os.O_EXCL
        assert flags & os.O_NOFOLLOW


def test_a_frame_is_written_once_and_never_through_a_link(tmp_path):
    spool = Spool(tmp_path / "spool")
    frame = OutgoingFrame(bytes(7) + b"1", 0, 1, encode(bytes(8), 0, np.zeros((1, 4), np.uint8), bytes(7) + b"1"))
    (tmp_path / "target").write_bytes(b"untouched")
    (spool.folder / f"{frame.id.hex()}.frame").symlink_to(tmp_path / "target")
    spool.write(frame)
    assert (tmp_path / "target").read_bytes() == b"untouched"
