#!/usr/bin/env python3
"""The health check of a container: it exits with 0 if the container's command answers, else with 1.

Without arguments it asks /healthz at HUBBUB_HEALTH_PORT, and at HUBBUB_PORT or the default ports of hubbub's commands.
One of them must answer 200. A command with a port for health answers 404 at its other port. With URLs it asks each of
them, and all must answer.
"""

import os
import ssl
import sys
from urllib.error import HTTPError
from urllib.request import urlopen

PORTS = ("8801", "8802", "8803", "8804")
SECONDS = 3


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def answers(url: str) -> bool:
    """Whether the URL answers 200. The check accepts any certificate, because certificates are for outside clients."""
    try:
        with urlopen(url, timeout=SECONDS, context=unverified()) as answer:  # noqa: S310 - the container's own URLs
            return bool(answer.status == 200)
    except HTTPError as error:  # its text says why a command is not ready
        sys.stderr.write(f"{url}: {error.code} {error.read(1000).decode(errors='replace').strip()}\n")
        return False
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{url}: {error}\n")
        return False


def main(urls: list[str]) -> int:
    if urls:
        return 0 if all(list(map(answers, urls))) else 1  # ask each one, so that each failure is printed
    health, port = os.environ.get("HUBBUB_HEALTH_PORT"), os.environ.get("HUBBUB_PORT")
    ports = [*([health] if health else []), *([port] if port else PORTS)]
    places = [f"{scheme}://127.0.0.1:{port}/healthz" for port in ports for scheme in ("http", "https")]
    return 0 if any(answers(place) for place in places) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
