"""The commands of the build stage of deploy/Dockerfile, run outside a container on the files of the context."""

import re
import shutil
import subprocess
import sys

import pytest

from hubbub.__main__ import COMMANDS
from tests.deploy.dockerfile import copy_context, instructions
from tests.slowness import patience

pytestmark = pytest.mark.long
PLACES = {"/opt/hubbub": "image", "/opt/tools": "tools", "/opt/wheel": "wheel", "/src": "src"}


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Build the image, and return the folder that the last stage copies."""
    folder = tmp_path_factory.mktemp("build")
    source = folder / "context"
    copy_context(source)
    for instruction, arguments in instructions():
        remaining_arguments = arguments
        for place, here in PLACES.items():
            remaining_arguments = re.sub(rf"{place}\b", str(folder / here), remaining_arguments)
        if instruction == "RUN":
            command = remaining_arguments.replace("python -m venv", f"{sys.executable} -m venv")
            subprocess.run(["bash", "-euc", command], cwd=folder / "src", check=True, timeout=patience(600))
        elif instruction == "COPY":
            shutil.copytree(source, folder / "src", dirs_exist_ok=True)
        else:
            assert instruction in ("ENV", "WORKDIR")
            (folder / "src").mkdir(exist_ok=True)
    return folder / "image"


def run(image, *command):
    return subprocess.run(
        [image / "bin" / command[0], *command[1:]], capture_output=True, text=True, timeout=patience(60), check=False
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
