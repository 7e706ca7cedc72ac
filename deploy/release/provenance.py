"""The statement of provenance of a release, in the form of in-toto and SLSA 1.

It says what the build read and which command built it. It is not signed: it helps to compare, and proves nothing about
who built it. The workflow of a tag adds a signed one.
"""

import platform
import subprocess
from pathlib import Path

from deploy.release.archive import sha256, text_of

TYPE, PREDICATE = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:hubbub:release:1"


def commit_of(root: Path, revision: str = "HEAD") -> str:
    command = ["git", "rev-parse", "--verify", f"{revision}^{{commit}}"]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603


def statement(files: list[Path], commit: str, source: Path, base: list[dict[str, object]]) -> bytes:
    """Return the statement about these files, which were built from a commit."""
    locks = [source / "deploy" / f"{name}requirements.txt" for name in ("", "build-", "release-")]
    locks += [source / "package-lock.json"]
    materials: list[dict[str, object]] = [{"uri": "git+.", "digest": {"gitCommit": commit}}]
    materials += [{"name": path.name, "digest": {"sha256": sha256(path.read_bytes())}} for path in locks]
    return text_of(
        {
            "_type": TYPE,
            "subject": [{"name": path.name, "digest": {"sha256": sha256(path.read_bytes())}} for path in files],
            "predicateType": PREDICATE,
            "predicate": {
                "buildDefinition": {
                    "buildType": BUILD_TYPE,
                    "externalParameters": {"command": "make release"},
                    "internalParameters": {"python": platform.python_version(), "machine": platform.machine()},
                    "resolvedDependencies": [*materials, *base],
                },
                "runDetails": {"builder": {"id": "urn:hubbub:builder:unsigned"}},
            },
        }
    )
