"""A network of its own for a campaign, in which one process has all addresses of an IPv6 /32."""

import socket
import subprocess

from tests.hostile.attacks import SOURCES

_SETUP = """
ip link set lo up &&
ip -6 route add local 2001:db8::/32 dev lo &&
echo 1 > /proc/sys/net/ipv6/ip_nonlocal_bind &&
exec "$@"
"""


def in_namespace(command):
    """Return the command that runs another one in such a network."""
    return ["unshare", "--map-root-user", "--net", "sh", "-c", _SETUP, "sh", *command]


def may_have_namespace():
    """Whether this machine lets the user make one. Some do not, and some have no `unshare`."""
    try:
        return not subprocess.run(in_namespace(["true"]), capture_output=True, check=False).returncode
    except OSError:
        return False


def is_in_namespace():
    """Whether this process has the addresses of such a network."""
    try:
        with socket.socket(socket.AF_INET6) as client:
            client.bind((SOURCES["an IPv6 /48"][0], 0))
    except OSError:
        return False
    return True
