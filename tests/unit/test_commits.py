"""`make lint` checks messages, sizes and moves of the commits that the rules cover, and no older ones."""

import subprocess

import pytest

from tests.commits import LAST_FREE, LAST_UNBOUNDED, MOST_LINES, ROOT, change_faults, exists, faults, git, newest

AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example.org")
GOOD = "board: show gaps in charts\n\nAn outage looked like a straight line.\n"


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (GOOD, None),
        ("docs, topics: rewrite in plain words\n\nWhy.", None),
        ("client api: `Client.answer` refuses late panes\n\nWhy.", None),
        ("Where no broker answers\n\nWhy.", "`area: "),
        ("Board: show gaps\n\nWhy.", "`area: "),
        ("board: Show gaps\n\nWhy.", "`area: "),
        ("board: show gaps.\n\nWhy.", "`area: "),
        (f"board: {'x' * 58}\n\nWhy.", None),
        (f"board: {'x' * 59}\n\nWhy.", "66 characters"),
        ("board: show gaps", "body is missing"),
        ("board: show gaps\n\n \n", "body is missing"),
        ("board: show gaps\nWhy.", "blank line"),
    ],
)
def test_each_fault_of_a_message_is_named(message, fault):
    assert [text for text in faults(message) if fault is None or fault not in text] == []
    assert bool(faults(message)) == (fault is not None)


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit before the rule and two after it."""
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", folder], check=True)
    for message in ("Of old", GOOD, "topics: set one more setting\n\nWhy."):
        git(folder, *AUTHOR, "commit", "-q", "--allow-empty", "-m", message)
    return folder


def test_commits_before_the_rule_are_not_checked(repository):
    last_free = git(repository, "rev-parse", "HEAD~2").strip()
    assert [message.split(":")[0] for message in newest(repository, last_free).values()] == ["topics", "board"]


@pytest.mark.parametrize(("depth", "areas"), [(1, ["topics"]), (2, ["topics", "board"]), (3, ["topics", "board"])])
def test_a_shallow_clone_passes(repository, tmp_path, depth, areas):
    last_free = git(repository, "rev-parse", "HEAD~2").strip()
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", f"--depth={depth}", f"file://{repository}", str(clone))
    assert [message.split(":")[0] for message in newest(clone, last_free).values()] == areas


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a source distribution has no history")
@pytest.mark.parametrize("commit", [LAST_FREE, LAST_UNBOUNDED])
def test_the_last_commit_before_a_rule_is_part_of_the_history(commit):
    shallow = git(ROOT, "rev-parse", "--is-shallow-repository").strip() == "true"
    assert shallow or exists(ROOT, commit)


def lines(number, word="value"):
    return "".join(f"{word}_{index} = {index}\n" for index in range(number))


def commit(folder, files):
    """Write files, remove those without text, commit all, and return the faults of the commit."""
    for name, text in files.items():
        path = folder / name
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    git(folder, "add", "--all")
    git(folder, *AUTHOR, "commit", "-q", "-m", GOOD)
    return change_faults(folder, "HEAD")


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"a.py": lines(MOST_LINES)}, None),
        ({"a.py": lines(MOST_LINES), "b.py": lines(1)}, "401 lines"),
        ({"package-lock.json": lines(1000), "docs/options.md": lines(1000)}, None),
        ({"package-lock.json": lines(1000), "a.py": lines(1)}, "1001 lines"),
    ],
)
def test_a_commit_has_a_bounded_size_unless_its_files_are_generated(repository, files, fault):
    messages = commit(repository, files)
    assert bool(messages) == (fault is not None)
    assert all(fault in message for message in messages)


OLD_NAME = "aggregator.store"
"""The module before its move. No module has this name now."""
NEW_NAME = "aggregator.board.store.store"
MODULE = f"from {OLD_NAME} import Store\n\n" + lines(600)
MODULE_AFTER = MODULE.replace(OLD_NAME, NEW_NAME)
ROOM = '"""The store."""\n\nfrom aggregator.board.store.store import Store\n\n__all__ = ["Store"]\n'
LAYERS = "layers =\n    worker\n    {}\n    errors\n"
USER = f"""\
from {OLD_NAME} import (
    Entry,
    Series,
)

text = "{{}}"
number = {{}}
"""
USER_AFTER = USER.replace(f"{OLD_NAME} import (", f"{NEW_NAME} import (").replace("    Entry,\n", "")


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({}, None),
        ({"user.py": USER_AFTER.format("aggregator/board/store/store.py", 1)}, None),
        ({"layers": LAYERS.format("board")}, None),
        ({"aggregator/board/__init__.py": ROOM}, None),
        ({"aggregator/board/__init__.py": ROOM + "number = 1\n"}, "aggregator/board/__init__.py"),
        ({"user.py": USER_AFTER.format("aggregator/board/store/store.py", 1) + lines(9)}, "user.py"),
        ({"user.py": USER.format("aggregator/store.py", 2)}, "user.py"),
        ({"aggregator/board/store/store.py": MODULE_AFTER + "number = 1\n"}, "aggregator/board/store/store.py"),
        ({"docs/options.md": lines(1)}, "docs/options.md"),
        ({"other.py": lines(1)}, "other.py"),
        ({"aggregator/board/store/store.py": MODULE_AFTER + lines(900, "other")}, "% equal lines"),
    ],
)
def test_a_move_changes_names_only(repository, files, fault):
    before = {
        "aggregator/store.py": MODULE,
        "user.py": USER.format("aggregator/store.py", 1),
        "layers": LAYERS.format("store"),
    }
    commit(repository, before)
    messages = commit(
        repository, {"aggregator/store.py": None, "aggregator/board/store/store.py": MODULE_AFTER} | files
    )
    assert bool(messages) == (fault is not None)
    assert fault is None or fault in messages[0]
    history = git(repository, "log", "--follow", "--format=%h", "--", "aggregator/board/store/store.py").split()
    assert len(history) == 2 or "equal lines" in messages[0]
