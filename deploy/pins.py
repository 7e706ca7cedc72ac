"""Audit and renew the pins of packages and images: `python deploy/pins.py audit FILE ...` or `renew FILE ...`.

The audit asks the database of advisories at osv.dev about each package. It asks the registry of each image for the
newest digest of its tag, and endoflife.date for the end of its line. It exits with 1 if there is an advisory, or
if an image is older than 90 days or its line has ended. The workflow pins.yml runs it, with all files that have
pins.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

MOST_DAYS = 90
"""Days after which an image is too old."""
ADVISORIES = "https://api.osv.dev/v1/querybatch"
ENDS = "https://endoflife.date/api/{product}/{line}.json"
PRODUCTS = {
    "python": "python",
    "apache/kafka": "apache-kafka",
    "prom/prometheus": "prometheus",
    "grafana/grafana": "grafana",
}
"""The names of images at endoflife.date. A product that it lacks is judged by its age alone."""
BATCH = 1_000
"""Most packages of a request."""

_PYTHON = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE)
_IMAGE = re.compile(r"\b([a-z0-9./-]+):([\w.-]+)@(sha256:[0-9a-f]{64})")


@dataclass(frozen=True, order=True)
class Package:
    """A pinned package. The ecosystem is named as in the database of advisories."""

    ecosystem: str
    name: str
    version: str


@dataclass(frozen=True, order=True)
class Image:
    """A pinned image."""

    name: str
    tag: str
    digest: str

    @property
    def line(self) -> str:
        """The line of releases that gets repairs: the first two numbers of the version."""
        return ".".join(re.findall(r"[0-9]+", self.tag)[:2])


@dataclass(frozen=True)
class Newest:
    """The image to which a tag points now, and the end of its line."""

    digest: str
    made: date
    end: date | None
    """The day on which the line ends; None: unknown."""


def packages_of(path: Path, text: str) -> Iterator[Package]:
    """Yield the packages that a file of requirements or a lock of npm pins."""
    if path.name == "package-lock.json":
        for place, entry in json.loads(text)["packages"].items():
            # The other entries are folders of this repository.
            if "node_modules/" in place and "version" in entry:
                yield Package("npm", place.rpartition("node_modules/")[2], entry["version"])
    elif path.suffix == ".txt":
        yield from (Package("PyPI", name, version) for name, version in _PYTHON.findall(text))


def images_of(text: str) -> set[Image]:
    return {Image(*found) for found in _IMAGE.findall(text)}


def image_faults(image: Image, newest: Newest, today: date) -> Iterator[str]:
    """Yield why an image must be replaced."""
    name = f"{image.name}:{image.tag}"
    days = (today - newest.made).days
    if image.digest != newest.digest:
        yield f"{name}: the tag has a newer image, {newest.digest}. Run `make pins`."
    if days > MOST_DAYS:
        yield f"{name}: the newest image of this tag is {days} days old, more than {MOST_DAYS}. Take a newer tag."
    if newest.end is not None and newest.end <= today:
        yield f"{name}: line {image.line} ended on {newest.end}. Take a newer line."


def renewed(text: str, digests: dict[tuple[str, str], str]) -> str:
    """Return a text with the newest digests of its images."""
    return _IMAGE.sub(lambda found: f"{found[1]}:{found[2]}@{digests[found[1], found[2]]}", text)


def _ask(url: str, question: Any = None) -> Any:
    body = None if question is None else json.dumps(question).encode()
    request = Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - the addresses above
    with urlopen(request, timeout=60) as answer:  # noqa: S310 - the addresses above
        return json.load(answer)


def _advisories(packages: list[Package]) -> Iterator[str]:
    for first in range(0, len(packages), BATCH):
        batch = packages[first : first + BATCH]
        queries = [{"package": {"name": p.name, "ecosystem": p.ecosystem}, "version": p.version} for p in batch]
        for package, result in zip(batch, _ask(ADVISORIES, {"queries": queries})["results"], strict=True):
            ids = ", ".join(advisory["id"] for advisory in result.get("vulns", ()))
            if ids:
                yield f"{package.name} {package.version} ({package.ecosystem}): {ids}"


def _newest(image: Image) -> Newest:
    inspect = ["skopeo", "inspect", "--override-os=linux", "--override-arch=amd64"]
    process = subprocess.run(  # noqa: S603 - the names in the files of this repository
        [*inspect, f"docker://docker.io/{_full_name(image)}"], capture_output=True, check=True, text=True
    )
    description = json.loads(process.stdout)
    return Newest(description["Digest"], date.fromisoformat(description["Created"][:10]), _end(image))


def _full_name(image: Image) -> str:
    return f"{image.name}:{image.tag}" if "/" in image.name else f"library/{image.name}:{image.tag}"


def _end(image: Image) -> date | None:
    product = PRODUCTS.get(image.name)
    if product is None:
        return None
    try:
        end = _ask(ENDS.format(product=product, line=image.line)).get("eol")
    except HTTPError:
        return None  # a line that the database does not have yet
    return date.fromisoformat(end) if isinstance(end, str) else None


def main(command: str, paths: Iterable[str]) -> int:
    texts = {Path(path): Path(path).read_text(encoding="utf-8") for path in paths}
    images: set[Image] = set()
    for text in texts.values():
        images |= images_of(text)
    newest = {image: _newest(image) for image in sorted(images)}

    if command == "renew":
        digests = {(image.name, image.tag): newest[image].digest for image in images}
        for path, text in texts.items():
            path.write_text(renewed(text, digests), encoding="utf-8")
        return 0

    packages: set[Package] = set()
    for path, text in texts.items():
        packages.update(packages_of(path, text))
    faults = list(_advisories(sorted(packages)))
    for image in sorted(images):
        faults += image_faults(image, newest[image], datetime.now(UTC).date())
    sys.stdout.write("".join(f"{fault}\n" for fault in faults))
    sys.stdout.write(f"{len(packages)} packages, {len(images)} images, {len(faults)} faults\n")
    return 1 if faults else 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("audit", "renew"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
