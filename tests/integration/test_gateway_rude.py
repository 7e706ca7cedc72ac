"""Clients that are slow, many, large or wrong. The port stays open for the others, and memory stays bounded."""

import gzip
import socket
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from aggregator.demo.broker import free_port
from oracles.frame import encode_json
from producers.gateway.access.tokens import short_lived
from tests.integration.gateways import KEY, NUMBERS, OTHER, TOKEN, TOKENS, Site, now
from tests.integration.workers import until
from tests.slowness import patience

HASTY = "from hubbub.http import port_shares\nport_shares.PATIENCE = 1.0"
HEAD = b"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/vnd.hubbub.frames\r\n"


@pytest.fixture
def site(tansu, tmp_path):
    with Site(tansu, tmp_path) as site:
        yield site


def connect(gateway, *texts):
    connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=patience(20))
    for text in texts:
        connection.sendall(text)
    return connection


def rest(connection):
    """Return the bytes that arrive until the other side closes."""
    received_bytes = b""
    try:
        data = connection.recv(1 << 16)
        while data:
            received_bytes += data
            data = connection.recv(1 << 16)
    except ConnectionResetError:
        pass
    return received_bytes


def test_endless_headers_do_not_close_the_port(site):
    with site.gateway("--connections", "20", patch=HASTY) as gateway, ExitStack() as stack:
        body = site.some_frame()
        starts = [(), (b"P",), (HEAD,), (HEAD, b"X-A: 1\r\n")]
        slow_connections = [stack.enter_context(connect(gateway, *starts[i % 4])) for i in range(20)]
        assert gateway.post(body).status == 202
        for connection in slow_connections:
            assert rest(connection) == b""
        assert gateway.metric("hubbub_gateway_connections_refused") >= 1
        assert gateway.metric("hubbub_gateway_connections") == 1


def test_the_gateway_gives_up_a_slow_body(site):
    with site.gateway(patch=HASTY) as gateway:
        with connect(gateway, HEAD, b"Content-Length: 100\r\n\r\n", b"HBB1") as connection:
            assert rest(connection).startswith(b"HTTP/1.1 408 ")
        assert gateway.metric("hubbub_gateway_held_bytes") == 0


@pytest.mark.parametrize("length", [b"Content-Length: 99999999999\r\n", b"Content-Length: 4194305\r\n"])
def test_the_gateway_does_not_wait_for_a_body_with_too_large_a_length(site, length):
    with site.gateway() as gateway, connect(gateway, HEAD, length, b"\r\n") as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_the_gateway_gives_up_bombs_and_endless_bodies_in_bounded_memory(site):
    bomb = gzip.compress(bytes(200 << 20), 9)
    brackets = gzip.compress(b"[" * (3 << 20))
    objects = gzip.compress(b"[" + b"{}," * (1 << 20) + b"{}]")
    with site.gateway() as gateway:
        assert gateway.post(site.some_frame()).status == 202
        earlier_peak = peak(gateway)
        assert gateway.post(bomb, Content_Encoding="gzip").status == 413
        assert gateway.post(brackets, kind="application/json", Content_Encoding="gzip").status == 400
        assert gateway.post(objects, kind="application/json", Content_Encoding="gzip").status == 413
        with connect(gateway, HEAD, b"Transfer-Encoding: chunked\r\n\r\n") as connection:
            try:
                for _ in range(200):
                    connection.sendall(b"100000\r\n" + bytes(1 << 20) + b"\r\n")
            except OSError:
                pass
            assert rest(connection)[:13] in (b"HTTP/1.1 413 ", b"")
        assert peak(gateway) - earlier_peak < 40 << 20
        assert gateway.post(site.some_frame()).status == 202
        assert gateway.metric("hubbub_gateway_held_bytes") == 0


def peak(gateway):
    """Return the most memory that the process has had, in bytes."""
    status = Path(f"/proc/{gateway.process.pid}/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def test_the_memory_of_concurrent_bodies_is_bounded(site):
    with site.gateway(patch="import producers.gateway.bodies as bodies\nbodies.MEMORY = 100") as gateway:
        with connect(gateway, HEAD, b"Content-Length: 98\r\n\r\n", bytes(90)) as connection:
            until(lambda: gateway.metric("hubbub_gateway_held_bytes") == 90)
            assert gateway.post(site.some_frame()).status == 202
            assert rest(connection).startswith(b"HTTP/1.1 429 ")
        assert gateway.metric("hubbub_gateway_held_bytes") == 0
        assert gateway.post(site.some_frame()).status == 202


def test_one_token_that_keeps_the_gateway_decoding_is_refused_beside_an_honest_one(site):
    """Ten thousand frames in 2 kB, against a quota of three reports."""
    digest = site.queries["numbers"].digest
    pane = now()
    bomb = gzip.compress(b"[" + b",".join([encode_json(digest, pane, site.reports("numbers", 1))] * 10_000) + b"]")
    greedy, honest = (short_lived("site", bytes.fromhex(KEY), int(time.time()) + 600) for _ in range(2))
    with site.gateway_with_tokens("--work", "100") as gateway, ThreadPoolExecutor(4) as pool:
        attacks = [
            pool.submit(gateway.post, bomb, greedy, kind="application/json", Content_Encoding="gzip") for _ in range(40)
        ]
        assert [gateway.post(site.some_frame(1), honest).status for _ in range(3)] == [202] * 3
        answers = [attack.result() for attack in attacks]
        assert {answer.status for answer in answers} == {429}
        reasons = [answer.body["reason"] for answer in answers]
        assert set(reasons) == {"quota", "work"}
        assert reasons.count("work") > 30
        assert all("Retry-After" in answer.headers for answer in answers if answer.body["reason"] == "work")
        assert gateway.metric("hubbub_quota_refused_total", query="numbers") == reasons.count("quota")
        assert "'site' has used up its quota for query numbers" in gateway.log_text
        assert gateway.metric("hubbub_gateway_held_bytes") == 0


def certificate(folder, name):
    """Write a certificate and its key to the files of the gateway, from a new authority."""
    pair = folder / "cert.pem", folder / "key.pem"
    subject = ("-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    files = [folder / f"{name}.{path.name}" for path in pair]
    command = ("openssl", "req", "-x509", "-nodes", *curve, "-days", "2", *subject)
    subprocess.run([*command, "-out", str(files[0]), "-keyout", str(files[1])], check=True, capture_output=True)
    for file, path in zip(files, pair, strict=True):
        path.write_bytes(file.read_bytes())
    return ssl.create_default_context(cafile=str(files[0]))


def test_the_gateway_follows_its_certificate_and_ignores_a_pair_that_does_not_match(site):
    first_certificate = certificate(site.folder, "first")
    files = ("--tls-cert", str(site.folder / "cert.pem"), "--tls-key", str(site.folder / "key.pem"))
    with site.gateway(*files) as gateway:

        def trusted(context):
            try:
                return gateway.post(site.some_frame(), context=context).status == 202
            except ssl.SSLCertVerificationError:
                return False

        assert gateway.scheme == "https"
        assert trusted(first_certificate)
        key = (site.folder / "key.pem").read_bytes()
        second = certificate(site.folder, "second")
        until(lambda: trusted(second))
        assert not trusted(first_certificate)
        (site.folder / "key.pem").write_bytes(key)
        until(lambda: "keeping the previous content" in gateway.log_text)
        assert trusted(second)


def test_the_gateway_follows_its_tokens_and_queries(site):
    site.tokens.write_text(TOKENS.replace("tokens.small", "tokens.big"))
    with site.gateway_with_tokens() as gateway:
        assert gateway.post(site.some_frame(), TOKEN).status == 202
        site.tokens.write_text(TOKENS[TOKENS.index("[tokens.small]") :])
        until(lambda: gateway.post(site.some_frame(), TOKEN).status == 401)
        site.tokens.write_text("nonsense")
        until(lambda: "keeping the previous content" in gateway.log_text)
        assert gateway.post(site.some_frame(), OTHER).status == 202
        earlier_frame = site.some_frame()
        site.define(NUMBERS.replace("60000", "50000"))
        until(lambda: gateway.post(site.some_frame(), OTHER).status == 202)
        assert gateway.post(earlier_frame, OTHER).body["reason"] == "unknown_query"
        [query] = gateway.ask("GET", "/v1/queries", Authorization=f"Bearer {OTHER}").body["queries"]
        assert query["domain"] == 50000


def test_health_and_metrics_have_a_port_of_their_own(site):
    """Probes and Prometheus need no TLS there, and a port full of requests does not keep them out."""
    context = certificate(site.folder, "first")
    health = free_port()
    files = ("--tls-cert", str(site.folder / "cert.pem"), "--tls-key", str(site.folder / "key.pem"))
    limits = ("--connections", "2", "--health-port", str(health))
    with site.gateway(*files, *limits) as gateway, ExitStack() as stack:
        assert gateway.process.stdout.readline().decode().split()[-1] == f"http://127.0.0.1:{health}/"

        def probe(path):
            with closing(HTTPConnection("127.0.0.1", health, timeout=patience(20))) as connection:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read()

        assert gateway.post(site.some_frame(), context=context).status == 202
        for path in ("/healthz", "/readyz", "/metrics"):
            assert gateway.ask("GET", path, context=context).status == 404
        paths = gateway.ask("GET", "/openapi.json", context=context).body["paths"]
        assert paths.keys() == {"/v1/reports", "/v1/queries", "/v1/state", "/openapi.json"}
        for _ in range(2):  # each is within a request
            plain = stack.enter_context(connect(gateway))
            busy = stack.enter_context(context.wrap_socket(plain, server_hostname="localhost"))
            busy.sendall(HEAD + b"Content-Length: 100\r\n\r\nHBB1")
        until(lambda: b"hubbub_gateway_held_bytes 8.0" in probe("/metrics")[1])
        assert probe("/healthz") == (200, b"ok\n")
        # A full port: the body that lags most gives way to a newcomer.
        assert gateway.post(site.some_frame(), context=context).status == 202
        assert probe("/readyz") == (200, b"ready\n")
        assert b"hubbub_gateway_connections_refused 1.0" in probe("/metrics")[1]
        assert probe("/v1/queries")[0] == 404


def test_a_health_port_that_is_taken_ends_the_gateway(site):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        number = busy.getsockname()[1]
        with (
            pytest.raises(AssertionError, match="name another --health-port"),
            site.gateway("--health-port", str(number)),
        ):
            pass
