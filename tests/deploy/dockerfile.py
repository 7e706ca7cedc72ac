"""The first stage of deploy/Dockerfile: its instructions, the files that it gets, and its run without an engine."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.deploy.containers import ROOT


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the first stage and their arguments."""
    stage = (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", " ").split("\nFROM ")[1]
    lines = [line for line in stage.splitlines()[1:] if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def copy_context(folder: Path) -> None:
    """Copy the files that .dockerignore allows."""
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    ignore = shutil.ignore_patterns("__pycache__", "vendor", "_compiled*")
    assert [rule for rule in rules if rule.startswith("**/")] == ["**/__pycache__", "**/static/vendor", "**/_compiled*"]
    for rule in (rule for rule in rules if rule.startswith("!")):
        for path in ROOT.glob(rule[1:]):
            place = folder / path.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree(path, place, ignore=ignore) if path.is_dir() else shutil.copy(path, place))


LAYER = """\
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
for folder in dev proc; do mount --rbind "/$folder" "$1/root/$folder"; done
mkdir "$1/root/src"
while IFS= read -r line; do
    case $line in
    RUN*) chroot "$1/root" bash -euc "cd /src && ${line#RUN }" </dev/null ;;
    COPY*) cp -r "$2/." "$1/root/src" ;;
    esac
done
mkdir -p "$3/opt"
cp -a "$1/root/opt/hubbub" "$3/opt"
"""


def build_layer() -> Path:
    """Run the instructions as they are, in a copy of this machine's file system. Return the folder with /opt/hubbub.

    A build with the same context is kept in build/.
    """
    with tempfile.TemporaryDirectory(prefix="hubbub-image-") as folder:
        context = Path(folder) / "context"
        place = Path(folder) / "stage"
        copy_context(context)
        place.mkdir()
        paths = sorted(path for path in context.rglob("*") if path.is_file())
        content = b"".join(str(path.relative_to(context)).encode() + path.read_bytes() for path in paths)
        layer = ROOT / "build" / f"image-{hashlib.sha256(content).hexdigest()[:12]}"
        if not layer.exists():
            half = layer.with_suffix(".half")
            shutil.rmtree(half, ignore_errors=True)
            text = "".join(f"{name} {rest}\n" for name, rest in instructions())
            command = ("unshare", "--mount", "bash", "-c", LAYER, "build", place, context, half)
            path = f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}"  # the Dockerfile's `python`
            variables = {**os.environ, "PATH": path, "PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
            subprocess.run(command, input=text, text=True, env=variables, check=True, stdout=subprocess.DEVNULL)
            half.rename(layer)
    return layer
