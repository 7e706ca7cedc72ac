"""`make lint` checks the messages of the commits that the rule covers, and no older ones."""

import subprocess

import pytest

from tests.commits import LAST_FREE, ROOT, exists, faults, git, newest

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
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        git(folder, *author, "commit", "-q", "--allow-empty", "-m", message)
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
def test_the_last_free_commit_is_part_of_the_history():
    shallow = git(ROOT, "rev-parse", "--is-shallow-repository").strip() == "true"
    assert shallow or exists(ROOT, LAST_FREE)
