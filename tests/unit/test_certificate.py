"""The end of a certificate, read from its file, with the metric and the warnings."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from hubbub.http.certificate import DAY, CertificateEnd, end_of, tls, warning


def pair(folder, end, name="127.0.0.1"):
    """Write the files of a certificate with this end, and return their paths."""
    certificate = trustme.CA().issue_cert(name, not_after=end)
    (folder / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    (folder / "key.pem").write_bytes(certificate.private_key_pem.bytes())
    return str(folder / "cert.pem"), str(folder / "key.pem")


@pytest.mark.parametrize(
    "end",
    [
        datetime(2024, 2, 29, 23, 59, 58, tzinfo=UTC),
        datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(2050, 1, 1, tzinfo=UTC),  # from here on the form has years of four digits
        datetime(2123, 6, 5, 4, 3, 2, tzinfo=UTC),
    ],
    ids=str,
)
def test_the_end_is_that_of_the_certificate_of_the_port(tmp_path, end):
    path, key = pair(tmp_path, end, "a-name-so-long-that-its-length-takes-more-than-one-byte." * 3 + "example")
    watch = tls(path, key)
    assert watch.value.end == end.timestamp()
    assert isinstance(watch.value.context, ssl.SSLContext)
    [metric] = CertificateEnd(watch).collect()
    assert [sample.value for sample in metric.samples] == [end.timestamp()]


def test_without_tls_the_metric_has_no_series():
    [metric] = CertificateEnd(None).collect()
    assert metric.samples == []


def test_the_end_follows_the_file(tmp_path):
    first_end = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
    watch = tls(*pair(tmp_path, first_end))
    context = watch.value.context
    pair(tmp_path, first_end + timedelta(days=90))
    watch.refresh()
    assert watch.value.end == (first_end + timedelta(days=90)).timestamp()
    assert watch.value.context is context


def test_a_text_before_the_certificate_does_not_hide_it(tmp_path):
    pair(tmp_path, datetime(2040, 1, 1, tzinfo=UTC))
    text = (tmp_path / "cert.pem").read_text()
    assert end_of(f"subject=CN = a\n{text}") == end_of(text) == datetime(2040, 1, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (15, None),
        (13.9, "the certificate in cert.pem ends at 2027-01-01 00:00:00 UTC, in 13.9 days: replace the file"),
        (0.5, "in 0.5 days"),
        (-3, "has ended at 2027-01-01 00:00:00 UTC, so clients refuse this port: replace the file"),
    ],
)
def test_a_warning_comes_two_weeks_before_the_end(days, words):
    end = datetime(2027, 1, 1, tzinfo=UTC).timestamp()
    text = warning(end, end - days * DAY, "cert.pem")
    assert text is None if words is None else words in text
