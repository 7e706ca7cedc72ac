"""A check of the newest commit messages. Each has a title `area: imperative, what changes`, a blank line, and a reason.

`make lint` runs it. Commits up to `LAST_FREE` have titles of another style and are not checked.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LAST_FREE = "b822e1dfc69ad8f36d609ecf996429452eff7dff"
"""The newest commit that the rule does not cover."""
LONGEST = 65
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


def newest(root: Path, last_free: str = LAST_FREE) -> dict[str, str]:
    """Return the commits that the rule covers, without merges, as a map from id to message.

    A shallow clone that does not reach back to `last_free` holds only newer commits.
    """
    shallow = git(root, "rev-parse", "--is-shallow-repository").strip() == "true"
    span = "HEAD" if shallow and not exists(root, last_free) else f"{last_free}..HEAD"
    parts = git(root, "log", "--no-merges", "--format=%h%x00%B%x00", span).split("\0")
    return {name.strip(): message for name, message in zip(parts[:-1:2], parts[1::2], strict=True)}


def exists(root: Path, commit: str) -> bool:
    command = ("git", "cat-file", "-e", f"{commit}^{{commit}}")
    return subprocess.run(command, cwd=root, capture_output=True, check=False).returncode == 0


def main() -> int:
    """Print each fault. Return 1 if there is one."""
    if not (ROOT / ".git").exists():
        return 0  # a source distribution has no history
    wrong = 0
    for name, message in newest(ROOT).items():
        for fault in faults(message):
            wrong = 1
            print(f"commit {name} ({message.splitlines()[0]}): {fault}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
