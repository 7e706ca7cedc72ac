"""The image of a release as an OCI archive, made without an engine by the lines of deploy/Dockerfile.

The Dockerfile's base image comes from a registry. `base_of_debian` makes another base from Debian's packages, for a
machine that reaches none. The statement of provenance names the base.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from deploy.release.archive import CONFIG, LAYER, compress, oci_archive, sha256, tar, text_of

CREATED = "2020-02-02T00:00:00Z"
HOME = "/opt/hubbub"
PACKAGES = (
    *("base-files", "ca-certificates", "coreutils", "dash", "libacl1", "libattr1", "libbz2-1.0"),
    *("libc6", "libcrypt1", "libexpat1", "libffi8", "libgcc-s1", "libgmp10", "liblzma5"),
    *(
        "libncursesw6",
        "libpcre2-8-0",
        "libpython3.11-minimal",
        "libpython3.11-stdlib",
        "libselinux1",
        "libsqlite3-0",
        "libssl3",
    ),
    *("libstdc++6", "libtinfo6", "libuuid1", "media-types", "netbase", "python3.11-minimal", "tzdata", "zlib1g"),
)
"""The packages of Debian 12 that Python and the scripts of the image need."""


@dataclass(frozen=True)
class Base:
    """The layers below hubbub: pairs of compressed bytes and the digest without compression."""

    layers: list[tuple[bytes, str]]
    python: str
    """The path of its Python 3.11."""
    materials: list[dict[str, object]]
    """Its parts, for the statement of provenance."""


def base_of_debian(folder: Path) -> Base:
    """Make a base from Debian's packages, which apt downloads and checks. Run it on Debian 12."""
    debs, root = folder / "debs", folder / "root"
    debs.mkdir(parents=True)
    command = ["apt-get", "-o", "APT::Sandbox::User=root", "download", "-q", *PACKAGES]
    subprocess.run(command, cwd=debs, check=True, capture_output=True)  # noqa: S603
    materials: list[dict[str, object]] = []
    for deb in sorted(debs.glob("*.deb")):
        subprocess.run(["dpkg", "-x", deb, root], check=True)  # noqa: S603, S607
        materials.append({"name": deb.name, "digest": {"sha256": sha256(deb.read_bytes())}})
    for extra in ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian"):
        shutil.rmtree(root / extra, ignore_errors=True)
    authorities = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_bytes(b"".join(path.read_bytes() for path in authorities))
    (root / "usr/bin/python3").symlink_to("python3.11")
    for name in ("tmp", "proc", "dev", "sys", "run"):
        (root / name).mkdir(exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nhubbub:x:10001:10001::/tmp:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nhubbub:x:10001:\n")
    plain = tar(root)
    return Base([(compress(plain), sha256(plain))], "/usr/bin/python3.11", materials)


def base_of_archive(path: Path, name: str) -> Base:
    """Return the base in an OCI archive, as `skopeo copy docker://NAME oci-archive:PATH` writes it."""
    with tarfile.open(path) as archive:

        def blob(digest: str) -> bytes:
            return (archive.extractfile(f"blobs/{digest.replace(':', '/')}") or BytesIO()).read()

        index = json.load(archive.extractfile("index.json") or BytesIO())
        digest = index["manifests"][0]["digest"]
        manifest = json.loads(blob(digest))
        diffs = json.loads(blob(manifest["config"]["digest"]))["rootfs"]["diff_ids"]
        layers = [(blob(layer["digest"]), diff.removeprefix("sha256:")) for layer, diff in
                  zip(manifest["layers"], diffs, strict=True)]  # fmt: skip
    material = {"uri": f"docker://{name}", "digest": {"sha256": digest.removeprefix("sha256:")}}
    return Base(layers, "/usr/local/bin/python3.11", [material])


def instructions(dockerfile: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of the last stage, as pairs of name and text."""
    stage = dockerfile.replace("\\\n", " ").split("\nFROM ")[-1]
    for line in stage.splitlines()[1:]:
        if line and not line.startswith("#"):
            name, _, text = line.partition(" ")
            yield name, text.strip()


def configuration(dockerfile: str, revision: str) -> dict[str, object]:
    """Return the settings of a container, as the last stage of the Dockerfile gives them."""
    path = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
    arguments, config = {"REVISION": revision}, {"Labels": {}, "Env": {}}  # type: ignore[var-annotated]
    for name, text in instructions(dockerfile):
        if name == "ARG":
            key, _, value = text.partition("=")
            arguments.setdefault(key, value)
        elif name in ("LABEL", "ENV"):
            for pair in shlex.split(text):
                key, _, value = pair.partition("=")
                value = re.sub(r"\$(\w+)", lambda match: arguments.get(match[1], path), value)
                config["Labels" if name == "LABEL" else "Env"][key] = value
        elif name in ("USER", "WORKDIR"):
            config["User" if name == "USER" else "WorkingDir"] = text
        elif name in ("ENTRYPOINT", "CMD"):
            config["Entrypoint" if name == "ENTRYPOINT" else "Cmd"] = json.loads(text)
        elif name not in ("RUN", "COPY", "HEALTHCHECK"):  # the Kubernetes way: OCI has no health checks
            raise ValueError(f"deploy/Dockerfile: {name} has no meaning here")
    config["Env"] = [f"{key}={value}" for key, value in config["Env"].items()]
    return config


def install(source: Path, wheel: Path, folder: Path, python: str) -> Path:
    """Make the folder /opt/hubbub as the Dockerfile does, and return it. `python` is the interpreter of the base."""
    home = folder / "hubbub"
    subprocess.run([sys.executable, "-m", "venv", home], check=True)  # noqa: S603
    pip = [home / "bin" / "pip", "--quiet", "--disable-pip-version-check"]
    locked = ["--require-hashes", "--no-deps", "--no-compile", "--only-binary=:all:"]
    subprocess.run([*pip, "install", *locked, "-r", source / "deploy/requirements.txt"], check=True)  # noqa: S603
    subprocess.run([*pip, "install", "--no-deps", "--no-compile", wheel], check=True)  # noqa: S603
    subprocess.run([*pip, "uninstall", "--yes", "setuptools", "pip"], check=True)  # noqa: S603
    for script, name in (("health.py", "hubbub-health"), ("restart-policy.sh", "restart-policy")):
        shutil.copy(source / "deploy" / script, home / "bin" / name)
        (home / "bin" / name).chmod(0o555)
    _relocate(home, python)
    hashed = ["--invalidation-mode", "unchecked-hash", "-s", home, "-p", HOME]  # so that no byte depends on a time
    command = [sys.executable, "-m", "compileall", "-q", *hashed, home]
    subprocess.run(command, check=True, env={"PYTHONHASHSEED": "0"})  # noqa: S603
    return home


def _relocate(home: Path, python: str) -> None:
    """Replace the paths of this machine by those in the image."""
    for path in sorted((home / "bin").iterdir()):
        if path.name.lower().startswith("activate"):
            path.unlink()
        elif path.is_symlink():
            path.unlink()
            path.symlink_to(python if path.name == "python" else "python")
        else:
            path.write_bytes(path.read_bytes().replace(str(home).encode(), HOME.encode()))
    (home / "pyvenv.cfg").write_text(f"home = {Path(python).parent}\ninclude-system-site-packages = false\n")
    for folder in home.rglob("__pycache__"):
        shutil.rmtree(folder)
    notes = ("direct_url.json", "REQUESTED", "INSTALLER")  # pip's notes on this machine
    for name in notes:
        for path in home.rglob(f"*.dist-info/{name}"):
            path.unlink()
    gone = ("/bin/", "__pycache__", *(f".dist-info/{name}," for name in notes))  # scripts have other bytes now
    for record in home.rglob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not any(part in line for part in gone)))


def build_image(source: Path, wheel: Path, base: Base, version: str, revision: str, target: Path) -> Path:
    """Write the image of hubbub on this base as an OCI archive, for the processor of this machine."""
    with tempfile.TemporaryDirectory(prefix="hubbub-image-") as folder:
        home = install(source, wheel, Path(folder), base.python)
        plain = tar(home, f"{HOME.lstrip('/')}/")
    layers = [*base.layers, (compress(plain), sha256(plain))]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": CREATED,
        "config": configuration((source / "deploy/Dockerfile").read_text(), revision),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for _, digest in layers]},
        "history": [{"created": CREATED, "created_by": "deploy/release/image.py"} for _ in layers],
    }
    target.write_bytes(oci_archive(text_of(config), CONFIG, [(LAYER, data) for data, _ in layers], version))
    return target
