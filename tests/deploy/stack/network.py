"""A network of containers: an address for each, a name server, and published ports."""

import selectors
import socket
import socketserver
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

NAMESPACES = Path("/run/netns")
BRIDGE, GATEWAY, PREFIX = "hubbub0", "172.28.0.1", "172.28.0."


class NameServer(socketserver.ThreadingUDPServer):
    """A DNS server. A name has the addresses of its running containers. Without any, the name does not exist."""

    daemon_threads = True

    def __init__(self, addresses: Callable[[str, str], list[str]]) -> None:
        super().__init__((GATEWAY, 53), _Question)
        self.addresses = addresses
        """Returns the addresses of a name, for the address of a client."""

    def answer(self, wire: bytes, client: str) -> bytes:
        query = dns.message.from_wire(wire)
        answer = dns.message.make_response(query, recursion_available=True)
        [question] = query.question
        addresses = self.addresses(question.name.to_text(omit_final_dot=True).lower(), client)
        if not addresses:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif question.rdtype == dns.rdatatype.A:
            answer.answer.append(dns.rrset.from_text(question.name, 0, "IN", "A", *addresses))
        return answer.to_wire()


class _Question(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        wire, reply = self.request
        reply.sendto(self.server.answer(wire, self.client_address[0]), self.client_address)


class PublishedPort(socketserver.ThreadingTCPServer):
    """A port of 127.0.0.1 that leads to a port of a container."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, address: str, port: int, target: Callable[[], tuple[str, int] | None]) -> None:
        super().__init__((address, port), _Connection)
        self.target = target


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        target = self.server.target()
        if target is None:
            return
        try:
            with socket.create_connection(target, 5) as inside:
                copy(self.request, inside)
        except OSError:
            pass  # the client sees its connection close, as with an engine


def copy(outside: socket.socket, inside: socket.socket) -> None:
    """Copy both directions until one side closes."""
    with selectors.DefaultSelector() as selector:
        selector.register(outside, selectors.EVENT_READ, inside)
        selector.register(inside, selectors.EVENT_READ, outside)
        while True:
            for key, _ in selector.select():
                data = key.fileobj.recv(65536)
                if not data:
                    return
                key.data.sendall(data)


class Network:
    """A bridge in this network namespace. Each container has a namespace and an address of its own."""

    def __init__(self, addresses: Callable[[str, str], list[str]]) -> None:
        NAMESPACES.mkdir(exist_ok=True)
        subprocess.run(("mount", "-t", "tmpfs", "tmpfs", NAMESPACES), check=True)  # names of this stack only
        ip("link", "set", "lo", "up")
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("address", "add", f"{GATEWAY}/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()
        self._serve(NameServer(addresses))

    def attach(self, name: str) -> str:
        """Give a container its network namespace. Return its address."""
        with self._lock:
            number = min({*range(2, 255)} - {*self._numbers.values()})
            self._numbers[name] = number
        link = f"port{number}"
        ip("netns", "add", name)
        ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", link, "master", BRIDGE, "up")
        ip("-n", name, "address", "add", f"{PREFIX}{number}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", name, "link", "set", device, "up")
        return f"{PREFIX}{number}"

    def detach(self, name: str) -> None:
        ip("link", "delete", f"port{self._numbers[name]}")  # the system deletes it later than its namespace
        ip("netns", "delete", name)
        with self._lock:
            del self._numbers[name]

    def publish(self, address: str, port: int, target: Callable[[], tuple[str, int] | None]) -> PublishedPort:
        """Publish a port. It fails if another container has it."""
        return self._serve(PublishedPort(address, port, target))

    @staticmethod
    def _serve(server: socketserver.BaseServer) -> socketserver.BaseServer:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


def ip(*arguments: str) -> None:
    subprocess.run(("ip", *arguments), check=True, capture_output=True, text=True)
