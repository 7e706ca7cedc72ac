"""The commands of the build stage of deploy/Dockerfile, run outside a container on the files of the context."""

import re
import shutil
import subprocess
import sys

import pytest

from hubbub.__main__ import COMMANDS
from tests.deploy.containers import ROOT

pytestmark = pytest.mark.long
PLACES = {"/opt/hubbub": "image", "/opt/tools": "tools", "/opt/wheel": "wheel", "/src": "src"}


def lines():
    """Return the instructions of the first stage, one per line."""
    stage = (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", " ").split("\nFROM ")[1]
    return [line for line in stage.splitlines()[1:] if line and not line.startswith("#")]


def context(folder):
    """Copy the files that .dockerignore allows."""
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    ignore = shutil.ignore_patterns("__pycache__", "vendor", "_compiled*")
    assert [rule for rule in rules if rule.startswith("**/")] == ["**/__pycache__", "**/static/vendor", "**/_compiled*"]
    for rule in (rule for rule in rules if rule.startswith("!")):
        for path in ROOT.glob(rule[1:]):
            place = folder / path.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree(path, place, ignore=ignore) if path.is_dir() else shutil.copy(path, place))


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Build the image, and return the folder that the last stage copies."""
    folder = tmp_path_factory.mktemp("build")
    source = folder / "context"
    context(source)
    for line in lines():
        instruction, _, rest = line.partition(" ")
        for place, here in PLACES.items():
            rest = re.sub(rf"{place}\b", str(folder / here), rest)
        if instruction == "RUN":
            command = rest.replace("python -m venv", f"{sys.executable} -m venv")
            subprocess.run(["bash", "-euc", command], cwd=folder / "src", check=True, timeout=600)
        elif instruction == "COPY":
            shutil.copytree(source, folder / "src", dirs_exist_ok=True)
        else:
            assert instruction in ("ENV", "WORKDIR")
            (folder / "src").mkdir(exist_ok=True)
    return folder / "image"


def run(image, *command):
    return subprocess.run(
        [image / "bin" / command[0], *command[1:]], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_installed(image, name):
    process = run(image, "hubbub", name, "--help")
    # No image has the embedded broker, which is for demos.
    assert process.returncode == 0, process.stderr


def test_the_image_has_no_build_tools(image):
    assert run(image, "python", "-m", "pip", "--version").returncode != 0
    assert run(image, "python", "-c", "import setuptools").returncode != 0


def test_the_image_counts_with_compiled_kernels(image):
    assert run(image, "hubbub", "--version").stdout.strip().endswith("kernels: c")


def test_the_image_has_the_chart_library(image):
    assert list(image.rglob("board/static/vendor/uPlot.js"))


def test_scripts_are_on_the_path(image):
    assert (image / "bin" / "hubbub-health").stat().st_mode & 0o555 == 0o555
    assert (image / "bin" / "restart-policy").stat().st_mode & 0o555 == 0o555
