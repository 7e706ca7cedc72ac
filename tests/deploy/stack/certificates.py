"""A certificate for the gateway of compose.yaml, whose devices then need TLS."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

FILES = {"gateway-certificate": "tls_cert", "gateway-key": "tls_key"}
"""The secrets of the gateway, with the options that name them."""


def write(folder: Path, days: float) -> None:
    """Write a certificate that ends after so many days, and its key, in place of those that are there."""
    certificate = trustme.CA().issue_cert("gateway", not_after=datetime.now(UTC) + timedelta(days=days))
    contents = {
        "gateway-key": certificate.private_key_pem.bytes(),
        "gateway-certificate": b"".join(blob.bytes() for blob in certificate.cert_chain_pems),
    }
    for name, content in contents.items():
        # The container sees the file itself, so a new file in its place would not reach it.
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o644)


def mount(definition: dict) -> None:
    """Let the service `gateway` of a project use the certificate."""
    gateway = definition["services"]["gateway"]
    gateway["environment"] = dict(gateway["environment"])
    for name, option in FILES.items():
        definition["secrets"][name] = {"file": f"./secrets/{name}"}
        gateway["secrets"] = [*gateway["secrets"], name]
        gateway["environment"][f"HUBBUB_GATEWAY_{option.upper()}"] = f"/run/secrets/{name}"
