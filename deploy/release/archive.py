"""Archives whose bytes depend on their files only, and OCI archives made of them."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

EPOCH = 1_580_601_600
"""The time of all files in archives, which hatchling writes into wheels too: 2020-02-02."""
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"
CHART_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def compress(data: bytes) -> bytes:
    return gzip.compress(data, 6, mtime=0)


def text_of(value: Any) -> bytes:
    """Return the one form of a JSON value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def tar(root: Path, prefix: str = "", parts: Iterable[Path] | None = None) -> bytes:
    """Return a tar archive of a folder, below `prefix`, in the order of the names. All files belong to root."""
    paths = sorted(root.rglob("*") if parts is None else parts, key=lambda path: path.as_posix())
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in paths:
            info = archive.gettarinfo(path, f"{prefix}{path.relative_to(root).as_posix()}")
            if info is None or not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
                continue
            if info.islnk():  # a second name of a file; write its bytes again
                info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
            info.mtime, info.uid, info.gid, info.uname, info.gname = EPOCH, 0, 0, "", ""
            info.mode = 0o777 if info.issym() else 0o1777 if info.name == "tmp" else _mode(info.mode)
            if info.isreg():
                with path.open("rb") as file:
                    archive.addfile(info, file)
            else:
                archive.addfile(info)
    return output.getvalue()


def _mode(mode: int) -> int:
    return 0o755 if mode & 0o111 else 0o644


def oci_archive(config: bytes, config_type: str, layers: list[tuple[str, bytes]], tag: str) -> bytes:
    """Return an OCI archive, one image in a layout in a tar. `layers` are pairs of media type and bytes."""

    def descriptor(media_type: str, data: bytes, **rest: Any) -> dict[str, Any]:
        return {"mediaType": media_type, "digest": f"sha256:{sha256(data)}", "size": len(data), **rest}

    manifest = text_of(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(config_type, config),
            "layers": [descriptor(media_type, data) for media_type, data in layers],
        }
    )
    named = descriptor(MANIFEST, manifest, annotations={"org.opencontainers.image.ref.name": tag})
    index = text_of({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]})
    files = {"oci-layout": text_of({"imageLayoutVersion": "1.0.0"}), "index.json": index}
    files |= {f"blobs/sha256/{sha256(data)}": data for data in (manifest, config, *(data for _, data in layers))}
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(data), EPOCH, 0o644
            archive.addfile(info, io.BytesIO(data))
    return output.getvalue()
