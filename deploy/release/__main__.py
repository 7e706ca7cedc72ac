"""Everything that a tag of hubbub needs, in one folder: `make release`.

Wheels for each platform, the pure wheel, the source distribution, the chart and the image as OCI archives, the list of
what the image holds, the statement of provenance, and the checksums of all of them.
"""

import argparse
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from deploy.release import packages
from deploy.release.archive import sha256
from deploy.release.image import Base, base_of_archive, base_of_debian, build_image
from deploy.release.provenance import commit_of, statement

CHECKSUMS = "SHA256SUMS"


def build(out: Path, bom: Path, helm: Path, base_archive: Path | None, base_name: str) -> None:
    """Build a release of the present commit."""
    changes = subprocess.run(
        ["git", "status", "--porcelain"], cwd=packages.ROOT, check=True, capture_output=True  # noqa: S607
    ).stdout  # fmt: skip
    if changes:
        sys.exit("a release is built from a commit: commit or stash the changes first")
    commit = commit_of(packages.ROOT)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="hubbub-release-") as name:
        folder = Path(name)
        source = packages.copy_sources(folder / "source", commit)
        version = tomllib.loads((source / "pyproject.toml").read_text())["project"]["version"]
        wheels = packages.build_wheels(source, out)
        packages.build_sdist(source, out)
        packages.build_chart(source, out, helm)
        base: Base = base_of_archive(base_archive, base_name) if base_archive else base_of_debian(folder / "base")
        (wheel,) = (wheel for wheel in wheels if "manylinux" in wheel.name and "x86_64" in wheel.name)
        build_image(source, wheel, base, version, commit, out / f"hubbub-image-{version}-amd64.oci.tar")
        (out / f"hubbub-{version}.cdx.json").write_bytes(bom.read_bytes())
        files = sorted(out.iterdir())
        (out / f"hubbub-{version}.intoto.json").write_bytes(statement(files, commit, source, base.materials))
    lines = [f"{sha256(path.read_bytes())}  {path.name}\n" for path in sorted(out.iterdir())]
    (out / CHECKSUMS).write_text("".join(lines))
    sys.stdout.write("".join(lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the release, which must not exist")
    parser.add_argument("--bom", type=Path, required=True, help="list of what the image holds, of `make sbom`")
    parser.add_argument("--helm", type=Path, default="helm", help="program that packs the chart")
    parser.add_argument("--base", type=Path, help="OCI archive of the Dockerfile's base image; else Debian's packages")
    parser.add_argument("--base-name", default="", help="name and digest of that base image")
    options = parser.parse_args()
    build(options.out, options.bom, options.helm, options.base, options.base_name)
