"""The audit of pins, without a network: the pins that it finds, and its faults of an image."""

import re
import runpy
import subprocess
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PINS = runpy.run_path(str(ROOT / "deploy" / "pins.py"))
FILES = yaml.safe_load((ROOT / ".github" / "workflows" / "pins.yml").read_text())["env"]["PINS"].split()
DIGEST, NEWER = "sha256:" + "1" * 64, "sha256:" + "2" * 64
IMAGE = PINS["Image"]("python", "3.11.13-slim-bookworm", DIGEST)
TODAY = date(2026, 11, 26)
NEWEST = PINS["Newest"](DIGEST, TODAY - timedelta(days=90), TODAY + timedelta(days=1))


def test_the_workflow_has_every_file_with_pins():
    paths = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    pins = re.compile(r"--hash=sha256:|\"integrity\": \"sha|^(FROM|\s+image:) .*@sha256:", re.MULTILINE)
    candidates = [path for path in paths if re.search(r"(\.txt|\.json|\.ya?ml|Dockerfile)$", path)]
    with_pins = {path for path in candidates if pins.search((ROOT / path).read_text(encoding="utf-8"))}
    assert with_pins == {*FILES}
    assert len(FILES) == len({*FILES})


@pytest.mark.parametrize("name", FILES)
def test_the_audit_finds_all_pins_of_a_file(name):
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    packages, images = [*PINS["packages_of"](path, text)], PINS["images_of"](text)
    if path.suffix == ".txt":
        assert len(packages) == len(re.findall(r"^[^\s#].*==", text, re.MULTILINE)) > 0
    elif path.suffix == ".json":
        assert len(packages) == text.count('"integrity"') > 0
        assert all(package.ecosystem == "npm" for package in packages)
    else:
        assert len(images) == text.count("@sha256:") > 0
        assert not packages


@pytest.mark.parametrize(
    ("newest", "fault"),
    [
        (NEWEST, None),
        (replace(NEWEST, digest=NEWER), "the tag has a newer image"),
        (replace(NEWEST, made=TODAY - timedelta(days=91)), "is 91 days old, more than 90"),
        (replace(NEWEST, end=TODAY), "line 3.11 ended on 2026-11-26"),
        (replace(NEWEST, end=None), None),
    ],
)
def test_an_image_is_replaced_if_it_is_old_or_its_line_has_ended(newest, fault):
    faults = [*PINS["image_faults"](IMAGE, newest, TODAY)]
    assert len(faults) == (fault is not None)
    assert fault is None or fault in faults[0]


def test_a_renewal_changes_digests_only():
    text = (ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8")
    digests = {(image.name, image.tag): NEWER for image in PINS["images_of"](text)}
    new_text = PINS["renewed"](text, digests)
    assert new_text.count(NEWER) == len(digests)
    assert re.sub("sha256:[0-9a-f]{64}", "", new_text) == re.sub("sha256:[0-9a-f]{64}", "", text)
