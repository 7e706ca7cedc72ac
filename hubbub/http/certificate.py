"""The certificate of a port: its TLS context, when it ends, and the warnings before and after that."""

import asyncio
import base64
import logging
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hubbub.file_watch import FileWatch
from oracles.errors import ParameterError

log = logging.getLogger(__name__)

DAY = 86_400
SOON = 14 * DAY
"""Seconds before the end of a certificate from which on there are warnings."""
_UTC_TIME = 0x17
_VERSION = 0xA0


class Tls(NamedTuple):
    """The TLS context of a port, and the end of its certificate."""

    context: ssl.SSLContext
    end: int
    """The Unix time at which the certificate ends."""


def tls(certificate: str, key: str) -> FileWatch[Tls]:
    """Return a TLS context that reloads its files for new connections."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2

    def read() -> Tls:
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)  # a wrong pair would damage `context`
        _load(context, certificate, key)
        return Tls(context, end_of(Path(certificate).read_text(encoding="ascii", errors="replace")))

    return FileWatch((certificate, key), read)


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        context.load_cert_chain(certificate, key, lambda: "")  # so that OpenSSL never asks in the terminal
    except OSError as error:
        raise ParameterError(f"{certificate} and {key} cannot be used as certificate and key: {error}") from error


def end_of(pem: str) -> int:
    """Return the Unix time at which the first certificate of a PEM file ends. The others sign it."""
    _, _, rest = pem.partition(ssl.PEM_HEADER)
    body, _, _ = rest.partition(ssl.PEM_FOOTER)
    return _not_after(base64.b64decode(body))


def _not_after(der: bytes) -> int:
    """Return the end of the validity in a certificate (RFC 5280, 4.1). ssl shows it only to the other side."""
    _, certificate, _ = _element(der)
    _, fields, _ = _element(certificate)
    # version (absent in the oldest form), serial number, signature, issuer, validity
    tag, _, rest = _element(fields)
    for _ in range(3 if tag == _VERSION else 2):
        _, _, rest = _element(rest)
    _, validity, _ = _element(rest)
    _, _, rest = _element(validity)
    tag, text, _ = _element(rest)

    digits = text.decode("ascii")
    if tag == _UTC_TIME:
        # RFC 5280, 4.1.2.5.1: years of two digits go from 1950 to 2049.
        digits = f"{'20' if digits < '50' else '19'}{digits}"
    return int(datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp())


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Return the tag and the content of the first DER element, and the bytes after it."""
    tag, size = data[0], data[1]
    start = 2
    if size > 0x7F:
        start += size & 0x7F
        size = int.from_bytes(data[2:start])
    return tag, data[start : start + size], data[start + size :]


class CertificateEnd(Collector):
    """The metric that says when the certificate in use ends. Without TLS it has no series."""

    def __init__(self, certificate: FileWatch[Tls] | None) -> None:
        self._certificate = certificate

    def collect(self) -> Iterator[Metric]:
        text = "Unix time at which the certificate in use ends"
        gauge = GaugeMetricFamily("hubbub_gateway_certificate_expiry_timestamp_seconds", text)
        if self._certificate is not None:
            gauge.add_metric([], self._certificate.value.end)
        yield gauge


async def warn_daily(certificate: FileWatch[Tls], path: str) -> None:
    """Warn once a day of a certificate that ends soon or has ended, until cancelled."""
    while True:
        text = warning(certificate.value.end, time.time(), path)
        if text is not None:
            log.warning("%s", text)
        await asyncio.sleep(DAY)


def warning(end: float, now: float, path: str) -> str | None:
    """Return the warning of a certificate that ends at this time, or None if that is far away."""
    if end - now > SOON:
        return None
    moment = datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if end > now:
        return f"the certificate in {path} ends at {moment}, in {(end - now) / DAY:.1f} days: replace the file"
    return f"the certificate in {path} has ended at {moment}, so clients refuse this port: replace the file"
