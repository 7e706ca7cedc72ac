"""The folder of an application's lists: 1.json, 2.json and so on."""

import re
from pathlib import Path

from hubbub.asked.asked_list import AskedError, AskedList, read_list
from hubbub.asked.chain import check_chain

_NAME = re.compile(r"[1-9][0-9]{0,14}\.json")


def read_file(path: Path) -> AskedList:
    """Read a list. An error names the file."""
    try:
        return read_list(path.read_bytes())
    except AskedError as error:
        raise AskedError(f"{path}: {error}") from None
    except OSError as error:
        raise AskedError(f"{path} cannot be read: {error.strerror}") from None


def read_folder(folder: Path) -> list[AskedList]:
    """Read all lists of a folder, the oldest first. They must follow each other without a gap."""
    try:
        numbers = sorted(int(path.stem) for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except OSError as error:
        raise AskedError(f"{folder} cannot be read: {error.strerror}") from None
    if not numbers:
        raise AskedError(f"{folder} has no list; a list is called 1.json, 2.json and so on")

    lists = [read_file(folder / f"{number}.json") for number in numbers]
    for number, signed_list in zip(numbers, lists, strict=True):
        if signed_list.number != number:
            raise AskedError(f"{folder / f'{number}.json'} has list {signed_list.number}")
    check_chain(lists[0], lists[1:] or lists)
    return lists
