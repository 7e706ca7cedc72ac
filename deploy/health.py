#!/usr/bin/env python3
"""The health of a container: ends with 0 where the command that runs in it answers, with 1 where none does.

Without arguments it asks /healthz at HUBBUB_PORT, or at the ports that hubbub's commands take by themselves;
with URLs it asks each of those, and all have to answer.
"""

import os
import ssl
import sys
from urllib.request import urlopen

PORTS = ("8801", "8802", "8803", "8804")
SECONDS = 3


def anyone() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def answers(url: str) -> bool:
    """Whether it says 200. Who answers is not asked: a certificate is for those outside."""
    try:
        with urlopen(url, timeout=SECONDS, context=anyone()) as answer:  # noqa: S310 - the URLs are the container's own
            return bool(answer.status == 200)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{url}: {error}\n")
        return False


def main(urls: list[str]) -> int:
    if urls:
        return 0 if all(list(map(answers, urls))) else 1  # each is asked, so that each is said
    port = os.environ.get("HUBBUB_PORT")
    places = [
        f"{scheme}://127.0.0.1:{port}/healthz" for port in ([port] if port else PORTS) for scheme in ("http", "https")
    ]
    return 0 if any(answers(place) for place in places) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
