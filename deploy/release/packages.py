"""The wheels, the source distribution and the chart of a release, from a clean copy of the sources."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import yaml

from deploy.release.archive import CHART_CONFIG, CHART_LAYER, compress, oci_archive, tar, text_of
from hatch_build import PLATFORMS, PURE, WHEEL

ROOT = Path(__file__).parents[2]
VENDOR = "aggregator/board/static/vendor"


def copy_sources(folder: Path, commit: str | None = None) -> Path:
    """Write the files of a commit into a folder, or those of the work tree that git knows, and return the folder."""
    folder.mkdir(parents=True)
    if commit is None:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout  # noqa: S607
        for name in filter(None, listed.decode().split("\0")):
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place, follow_symlinks=False)
    else:
        data = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout  # noqa: S603, S607
        with tarfile.open(fileobj=BytesIO(data)) as archive:
            archive.extractall(folder, filter="data")
    if (ROOT / VENDOR).is_dir():  # the files that package-lock.json pins, fetched before
        shutil.copytree(ROOT / VENDOR, folder / VENDOR, dirs_exist_ok=True)
    return folder


def build_wheel(source: Path, platform: str, folder: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Build the wheel of a platform, or the pure one, with the tools of this environment. Return its path."""
    before = {*folder.glob("*.whl")}
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    path = f"{Path(sys.executable).parent}:{environment['PATH']}"
    subprocess.run(  # noqa: S603 - the arguments are ours
        [*command, "--no-build-isolation", "--wheel-dir", folder, source],
        check=True,
        env={**environment, "PATH": path, WHEEL: platform},
    )
    (wheel,) = {*folder.glob("*.whl")} - before
    return wheel


def build_wheels(source: Path, folder: Path) -> list[Path]:
    """Build the wheel of each platform and the pure one. Check that the platforms of Linux are true."""
    wheels = [build_wheel(source, platform, folder) for platform in (PURE, *PLATFORMS)]
    for wheel in wheels:
        if "manylinux" in wheel.name:
            check_platform(wheel)
    return wheels


def check_platform(wheel: Path) -> None:
    """Let auditwheel check that the wheel suits the platform that its name gives."""
    command = [sys.executable, "-m", "auditwheel", "show", wheel]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
    platform = wheel.stem.rpartition("-")[2].partition(".")[0]
    if f'"{platform}"' not in " ".join(text.split()):
        raise RuntimeError(f"{wheel.name} does not suit its platform: {text}")


def build_sdist(source: Path, folder: Path) -> Path:
    """Build the source distribution, and return its path."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", folder.resolve()]
    subprocess.run(command, cwd=source, check=True, capture_output=True)  # noqa: S603
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


def build_chart(source: Path, folder: Path, helm: Path) -> list[Path]:
    """Write the chart as helm's archive and as an OCI archive. Return both paths."""
    about = yaml.safe_load((source / "helm/hubbub/Chart.yaml").read_text())
    name = f"hubbub-{about['version']}"
    with tempfile.TemporaryDirectory(prefix="hubbub-chart-") as place:
        subprocess.run([helm, "package", source / "helm/hubbub", "-d", place], check=True, capture_output=True)  # noqa: S603
        with tarfile.open(Path(place, f"{name}.tgz")) as archive:  # with the times of this moment
            archive.extractall(Path(place, name), filter="data")
        data = compress(tar(Path(place, name)))
    plain, oci = folder / f"{name}.tgz", folder / f"hubbub-chart-{about['version']}.oci.tar"
    plain.write_bytes(data)
    oci.write_bytes(oci_archive(text_of(about), CHART_CONFIG, [(CHART_LAYER, data)], about["version"]))
    return [plain, oci]
