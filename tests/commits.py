"""A check of the newest commits: of their messages, their sizes and their moves. `make lint` runs it.

A message has a title `area: imperative, what changes`, a blank line, and a reason. A commit has at most `MOST_LINES`
changed lines. Generated files and moves have commits of their own without that bound. A move changes nothing but the
names of what moves, so `git log --follow` finds the older commits of each file.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
LAST_FREE = "b822e1dfc69ad8f36d609ecf996429452eff7dff"
"""The newest commit whose message is not checked: the titles up to it have another style."""
LAST_UNBOUNDED = "37ade64a99df29162aa0c85f9a8c5198fca17d93"
"""The newest commit whose changes are not checked."""
LONGEST = 65
MOST_LINES = 400
"""Added and deleted lines of a commit."""
LEAST_SIMILARITY = 50
"""The share of equal lines, in percent, from which `git log --follow` takes two paths for one file."""
GENERATED_FILES = (
    ".ci/requirements.txt",
    "deploy/*requirements.txt",
    "helm/requirements.txt",
    "*package-lock.json",
    "hubbub/schemas/*.json",
    "helm/hubbub/values.schema.json",
    "deploy/grafana/*.json",
    "tests/vectors/*.json",
    "tests/vectors/*.jsonl",
    "docs/*.png",
    "docs/*.svg",
    "docs/options.md",
    "docs/accuracy.md",
)
"""Files that a program writes. An asterisk stands for any path."""
IMPORT = re.compile(r"[+-]\s*(from [\w.]+ import .*|import .*|\w+( as \w+)?,?|\)|)(  # noqa.*)?|\\ No newline.*")
"""A changed line that is blank, an import, or a name in the parentheses of an import."""
MOST_WRAPPED = 8
"""Changed lines around the name of a moved file, if they wrap differently."""
TITLE = re.compile(r"[a-z][a-z0-9_./-]*(,? [a-z0-9_./-]+)*: [a-z`].*[^. ]")


def faults(message: str) -> list[str]:
    """Return the faults of a commit's message."""
    title, _, rest = message.strip("\n").partition("\n")
    messages = []
    if len(title) > LONGEST:
        messages.append(f"the title has {len(title)} characters, at most {LONGEST} fit")
    if not TITLE.fullmatch(title):
        messages.append("the title must be `area: imperative, what changes`, in lower case and without a full stop")
    if not rest.strip():
        messages.append("the body is missing: say why, and how it is shown")
    elif not rest.startswith("\n"):
        messages.append("a blank line must follow the title")
    return messages


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(("git", *arguments), cwd=root, capture_output=True, text=True, check=True).stdout


def newest(root: Path, last_free: str) -> dict[str, str]:
    """Return the commits after another one, without merges, as a map from id to message.

    A shallow clone that does not reach back to `last_free` holds only newer commits.
    """
    shallow = git(root, "rev-parse", "--is-shallow-repository").strip() == "true"
    span = "HEAD" if shallow and not exists(root, last_free) else f"{last_free}..HEAD"
    parts = git(root, "log", "--no-merges", "--format=%h%x00%B%x00", span).split("\0")
    return {name.strip(): message for name, message in zip(parts[:-1:2], parts[1::2], strict=True)}


def exists(root: Path, commit: str) -> bool:
    command = ("git", "cat-file", "-e", f"{commit}^{{commit}}")
    return subprocess.run(command, cwd=root, capture_output=True, check=False).returncode == 0


@dataclass(frozen=True)
class Change:
    """A changed file of a commit: git's header, and its hunks without context."""

    header: str
    hunks: Sequence[str]

    @cached_property
    def path(self) -> str:
        return self.header.partition("\n")[0].rpartition(" b/")[2]

    @cached_property
    def old_path(self) -> str:
        rename = re.search(r"^rename from (.*)$", self.header, re.MULTILINE)
        return rename[1] if rename else self.path

    @cached_property
    def similarity(self) -> int:
        """The share of equal lines in percent, which git gives for renamed files."""
        share = re.search(r"^similarity index (\d+)%$", self.header, re.MULTILINE)
        return int(share[1]) if share else 100

    @property
    def is_move(self) -> bool:
        return self.path != self.old_path

    @property
    def is_generated(self) -> bool:
        return any(fnmatch(self.path, pattern) for pattern in GENERATED_FILES)

    @property
    def lines(self) -> list[str]:
        return [line for hunk in self.hunks for line in hunk.splitlines() if line[0] in "+-"]


def changes(root: Path, commit: str) -> list[Change]:
    """Return the changed files of a commit. Files with at least 30% equal lines are taken for one file that moved."""
    text = git(root, "-c", "core.quotePath=false", "show", "--format=", "-M30%", "-l0", "--unified=0", commit)
    parts = [
        re.split(r"^@@ .*\n", part, flags=re.MULTILINE) for part in re.split(r"^diff --git ", text, flags=re.MULTILINE)
    ]
    return [Change(header, hunks) for header, *hunks in parts[1:]]


def change_faults(root: Path, commit: str) -> list[str]:
    """Return the faults of a commit's size and of its moves."""
    files = changes(root, commit)
    if any(file.is_move for file in files):
        return move_faults(files)
    lines = sum(len(file.lines) for file in files)
    if lines <= MOST_LINES or all(file.is_generated for file in files):
        return []
    return [f"it changes {lines} lines, at most {MOST_LINES} fit. Commit moves and generated files alone, or split it"]


def move_faults(files: Sequence[Change]) -> list[str]:
    """Return what a commit with moved files changes, except names, imports, and the `__init__.py` of a room."""
    messages = [
        f"{file.old_path} and {file.path} have only {file.similarity}% equal lines. Move first, and change later"
        for file in files
        if file.similarity < LEAST_SIMILARITY
    ]
    names = names_of([file for file in files if file.is_move])
    others = [
        file.path for file in files if not all(only_names(hunk, names) for hunk in file.hunks) and not is_room(file)
    ]
    if others:
        messages.append(
            f"it moves files, so it may change imports and their names only. Other lines: {', '.join(others)}"
        )
    return messages


def names_of(moves: Sequence[Change]) -> re.Pattern[str]:
    """Return a pattern of the names of moved files: their paths, dotted names, and words in lists of modules."""
    names = {r"\b__file__\b"}  # a path from here to another file depends on the folder
    for path in {PurePosixPath(name) for file in moves for name in (file.old_path, file.path)}:
        bare = path.with_suffix("")
        names |= {re.escape(str(bare)), re.escape(".".join(bare.parts))}
        if path.name != "__init__.py":
            names.add(rf"\b{re.escape(path.name)}")
        for word in bare.parts:
            names |= {f'"{word}"', rf"^[+-] +{word}$"}
    return re.compile("|".join(sorted(names)), re.MULTILINE)


def only_names(hunk: str, names: re.Pattern[str]) -> bool:
    """Whether all lines are imports or have a name of a moved file. A longer name may wrap a few lines around it."""
    lines = [line for line in hunk.splitlines() if not IMPORT.fullmatch(line)]
    others = [line for line in lines if not names.search(line)]
    return not others or (len(others) < len(lines) and len(others) <= MOST_WRAPPED)


def is_room(file: Change) -> bool:
    """Whether the file is a new or removed `__init__.py` that only hands names on."""
    if PurePosixPath(file.path).name != "__init__.py" or " file mode " not in file.header:
        return False
    body = ast.parse("\n".join(line[1:] for line in file.lines)).body
    return all(
        isinstance(node, ast.Import | ast.ImportFrom | ast.Expr)
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
        for node in body
    )


def main() -> int:
    """Print each fault. Return 1 if there is one."""
    if not (ROOT / ".git").exists():
        return 0  # a source distribution has no history
    recent = newest(ROOT, LAST_UNBOUNDED)
    wrong = 0
    for name, message in newest(ROOT, LAST_FREE).items():
        for fault in faults(message) + (change_faults(ROOT, name) if name in recent else []):
            wrong = 1
            print(f"commit {name} ({message.splitlines()[0]}): {fault}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
