"""The files of a release. Builds of one commit have the same bytes, and each file does the work of its name."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from hashlib import sha256
from itertools import chain
from pathlib import Path

import pytest
import yaml

from deploy.release import archive, packages
from deploy.release.image import configuration
from deploy.release.provenance import statement
from hatch_build import PLATFORMS
from tests.brokers import skip
from tests.deploy.charts import CHART, helm, tools
from tests.deploy.containers import ROOT
from tests.slowness import patience

TOOLS = ROOT / "build" / "release-tools" / "bin" / "python"
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
X86 = "manylinux_2_17_x86_64.manylinux2014_x86_64"
BUILD = """
import os, sys
from pathlib import Path
from deploy.release import image, packages
out, helm = map(Path, sys.argv[1:3])
source = packages.copy_sources(out / "source")
wheels = packages.build_wheels(source, out)
packages.build_sdist(source, out)
packages.build_chart(source, out, helm)
wheel = next(wheel for wheel in wheels if "manylinux" in wheel.name and "x86_64" in wheel.name)
image.build_image(source, wheel, image.base_of_debian(out / "base"), "9.9.9", "0" * 40, out / "image.oci.tar")
"""


def layout(data):
    """Return the files of an OCI archive, the manifest and the configuration, after a check of each digest."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    assert all(sha256(text).hexdigest() == Path(name).name for name, text in files.items() if name.startswith("blobs"))

    def blob(descriptor):
        text = files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert len(text) == descriptor["size"]
        return text

    manifest = json.loads(blob(json.loads(files["index.json"])["manifests"][0]))
    return manifest, blob(manifest["config"]), [blob(layer) for layer in manifest["layers"]]


def test_workflows_pin_each_action_and_run_targets_that_exist():
    targets = {*re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)}
    workflows = [*(ROOT / ".github" / "workflows").glob("*.yml")]
    assert len(workflows) == 4
    for path in workflows:
        jobs = yaml.safe_load(path.read_text())["jobs"].values()
        steps = [*chain.from_iterable(job["steps"] for job in jobs)]
        assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"]) for step in steps if "uses" in step)
        job_targets = {
            name for step in steps for name in re.findall(r"^(?:sudo env .*)?make ([a-z0-9-]+)", step.get("run", ""))
        }
        job_targets |= {name for job in jobs for name in job.get("strategy", {}).get("matrix", {}).get("target", [])}
        assert job_targets
        assert job_targets <= targets


def test_readme_installs_the_present_release():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"hubbub-{version}-*.whl" in (ROOT / "README.md").read_text()


def test_readme_promises_the_versions_of_kafka_that_are_tested():
    versions = re.search(r"^KAFKAS \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    words = [".".join(version.split(".")[:2]) for version in versions]
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"tested with Apache Kafka {', '.join(words[:-1])} and {words[-1]}." in text


def test_an_archive_depends_on_the_files_only(tmp_path):
    for name in "ab":
        folder = tmp_path / name
        (folder / "inner").mkdir(parents=True)
        for file in ("inner/z", "a") if name == "a" else ("a", "inner/z"):
            (folder / file).write_text(file)
        (folder / "link").symlink_to("a")
        os.utime(folder / "a", (1, len(name)))
    assert archive.tar(tmp_path / "a", "x/") == archive.tar(tmp_path / "b", "x/")
    with tarfile.open(fileobj=io.BytesIO(archive.tar(tmp_path / "a", "x/"))) as tar:
        assert tar.getnames() == ["x/a", "x/inner", "x/inner/z", "x/link"]
        assert {(member.mtime, member.uid, member.uname) for member in tar} == {(archive.EPOCH, 0, "")}


def test_the_settings_of_the_image_are_those_of_the_dockerfile():
    config = configuration(DOCKERFILE, "0" * 40)
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["hubbub"]
    assert config["Cmd"] == ["--help"]
    assert "PATH=/opt/hubbub/bin:/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin" in config["Env"]
    assert config["Labels"]["org.opencontainers.image.revision"] == "0" * 40
    assert config["Labels"]["org.opencontainers.image.version"] == re.search("ARG VERSION=(.*)", DOCKERFILE)[1]
    with pytest.raises(ValueError, match="VOLUME has no meaning here"):
        configuration(f"{DOCKERFILE}VOLUME /data\n", "")


def test_the_statement_names_each_file_and_what_the_build_read(tmp_path):
    file = tmp_path / "hubbub.whl"
    file.write_bytes(b"wheel")
    text = json.loads(statement([file], "0" * 40, ROOT, [{"name": "base"}]))
    assert text["subject"] == [{"name": "hubbub.whl", "digest": {"sha256": sha256(b"wheel").hexdigest()}}]
    materials = text["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert materials[0]["digest"] == {"gitCommit": "0" * 40}
    assert {"release-requirements.txt", "package-lock.json", "base"} <= {material.get("name") for material in materials}


@pytest.fixture(scope="module")
def chart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chart")
    source = packages.copy_sources(folder / "source")
    return packages.build_chart(source, folder, tools() / "helm")


def test_the_chart_of_a_release_renders_like_the_chart_of_the_sources(chart):
    # Without a secret each rendering would make a token of its own.
    settings = ["--set", "kafka.servers=kafka:9092", "--set", "board.token.secret=board-token"]
    arguments = ["--namespace", "counting", *settings]
    released = helm("template", "crowd", chart[0], *arguments)
    assert released.returncode == 0, released.stderr
    assert released.stdout == helm("template", "crowd", CHART, *arguments).stdout


def test_the_archive_of_the_chart_is_what_helm_pushes(chart):
    manifest, config, layers = layout(chart[1].read_bytes())
    assert manifest["config"]["mediaType"] == "application/vnd.cncf.helm.config.v1+json"
    assert json.loads(config)["name"] == "hubbub"
    assert layers == [chart[0].read_bytes()]


def built(folder):
    """Build everything with caches of its own, and return the files."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ZIG_GLOBAL_CACHE_DIR": str(folder / "cache")}
    environment["ZIG_LOCAL_CACHE_DIR"] = str(folder / "cache")
    command = [TOOLS, "-c", BUILD, os.path.relpath(folder, ROOT), tools() / "helm"]  # `make release` says dist
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)
    assert process.returncode == 0, process.stderr
    shutil.rmtree(folder / "cache")
    return {path.name: path for path in folder.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    if not TOOLS.exists():
        subprocess.run(["make", "build/release-tools/.made"], cwd=ROOT, check=True, timeout=patience(600))
    return built(tmp_path_factory.mktemp("release"))


def wheel_of(release, part):
    return next(path for name, path in release.items() if part in name and name.endswith(".whl"))


@pytest.mark.long
def test_a_second_build_has_the_same_bytes(release, tmp_path_factory):
    repeated_build = built(tmp_path_factory.mktemp("again"))
    assert release.keys() == repeated_build.keys()
    assert len(release) == len(PLATFORMS) + 5
    different = [name for name, path in release.items() if path.read_bytes() != repeated_build[name].read_bytes()]
    assert different == []


@pytest.mark.long
def test_each_wheel_has_the_kernels_of_its_platform(release):
    kinds = {  # the first bytes of the library, and the number of its processor
        "manylinux_2_17_x86_64": (b"\x7fELF", 62),
        "manylinux_2_17_aarch64": (b"\x7fELF", 183),
        "musllinux_1_2_x86_64": (b"\x7fELF", 62),
        "musllinux_1_2_aarch64": (b"\x7fELF", 183),
        "macosx_11_0_arm64": (b"\xcf\xfa\xed\xfe", None),
    }
    assert all(any(platform.startswith(part) for platform in PLATFORMS) for part in kinds)
    for part, (start, machine) in kinds.items():
        with zipfile.ZipFile(wheel_of(release, part)) as wheel:
            library = wheel.read("oracles/kernels/_compiled.abi3.so")
        assert library.startswith(start)
        assert machine in (None, library[18])
        assert ("musl" in part) <= (b"GLIBC" not in library)
    with zipfile.ZipFile(wheel_of(release, "none-any")) as wheel:
        assert not any("_compiled" in name for name in wheel.namelist())


CALL = """
from oracles import oracle
from oracles.kernels import batches, c_library
import numpy as np
o = oracle("olh", epsilon=1.0, size=64)
tally = o.zeros()
o.add(tally, o.perturb(np.arange(1000) % 64, np.random.default_rng(1)))
print(c_library.name(), batches.can_walk(), hex(batches.crc32c(memoryview(b"123456789"))), tally.tolist())
"""


@pytest.mark.long
def test_the_wheel_for_arm64_counts_the_same(release, tmp_path):
    """A Python for arm64 of Debian runs under qemu."""
    script = Path(__file__).with_name("arm64.sh")
    subprocess.run(
        ["bash", script, tmp_path, wheel_of(release, "manylinux_2_17_aarch64")], check=True, timeout=patience(600)
    )
    python = [tmp_path / "python", "-P", "-c", CALL]
    there = subprocess.run(python, capture_output=True, text=True, check=True, timeout=patience(300))
    with zipfile.ZipFile(wheel_of(release, X86.partition(".")[0])) as wheel:
        wheel.extractall(tmp_path / "here")  # noqa: S202 - our own wheel
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "here")}
    here = subprocess.run(
        [sys.executable, "-P", "-c", CALL], env=environment, capture_output=True, text=True, check=True
    )
    assert there.stdout == here.stdout
    assert there.stdout.startswith("c True 0xe3069283 [")


@pytest.mark.long
def test_the_loader_of_musl_loads_the_kernels(release, tmp_path):
    """The loader is from Debian's package. It refuses, for example, functions that GCC chooses at run time on glibc."""
    fetch = ["apt-get", "-o", "APT::Sandbox::User=root", "download", "-q", "musl"]
    download = subprocess.run(fetch, cwd=tmp_path, check=False, capture_output=True, text=True)
    if download.returncode:
        skip(RuntimeError(f"no musl: {download.stderr}"))
    subprocess.run(["dpkg", "-x", next(tmp_path.glob("musl_*.deb")), tmp_path], check=True)
    source = Path(__file__).with_name("musl.c")
    program = tmp_path / "program"
    options = ["-target", "x86_64-linux-musl", "-dynamic", "-rdynamic", "-O1"]
    subprocess.run([TOOLS, "-m", "ziglang", "cc", *options, "-o", program, source], check=True, timeout=patience(300))

    with zipfile.ZipFile(wheel_of(release, "musllinux_1_2_x86_64")) as wheel:
        library = wheel.extract("oracles/kernels/_compiled.abi3.so", tmp_path)
    command = [tmp_path / "lib" / "ld-musl-x86_64.so.1", program, library]
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    ones = [sum(number.bit_count() for number in range(start, start + 8)) for start in range(0, 80, 8)]
    assert process.stdout.split() == ["0xe3069283", *map(str, ones)], process.stderr


@pytest.mark.long
def test_the_image_runs_as_its_user_without_an_engine(release, tmp_path):
    manifest, config, layers = layout(release["image.oci.tar"].read_bytes())
    assert manifest["mediaType"] == archive.MANIFEST
    for layer in layers:
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            tar.extractall(tmp_path, filter="tar")
    tmp_path.chmod(0o755)  # for the user of the image
    settings = json.loads(config)["config"]
    run = ["chroot", "--userspec=10001:10001", str(tmp_path), "/usr/bin/env", "-i", *settings["Env"]]

    def command(*arguments):
        return subprocess.run([*run, *arguments], capture_output=True, text=True, check=False, timeout=patience(60))

    version = command(*settings["Entrypoint"], "--version")
    assert version.returncode == 0, version.stderr
    assert version.stdout.strip().endswith("kernels: c")
    assert command("hubbub", "worker", "--help").returncode == 0
    assert command("restart-policy", "--help").returncode == 0
    assert command("hubbub-health", "http://127.0.0.1:1/").returncode == 1
    assert command("python", "-m", "pip").returncode != 0
    assert b"hubbub-image-" not in (tmp_path / "opt/hubbub/bin/hubbub").read_bytes()
