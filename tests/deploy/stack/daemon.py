"""The answers to `docker compose`: the program docker.py sends its words here, and does what the answer says."""

import json
import socketserver
import threading
import time
from pathlib import Path

from tests.deploy.stack.engine import Project, Refusal

VERBS = {
    "exec": {"-T": 0, "--index": 1},
    "logs": {"--tail": 1, "--since": 1},
    "ps": {"--all": 0},
    "restart": {},
    "run": {"--rm": 0, "--detach": 0, "--use-aliases": 0},
    "stats": {"--no-stream": 0},
    "stop": {},
    "up": {"--detach": 0, "--build": 0, "--no-recreate": 0, "--scale": 1},
}
"""The verbs, and their options with the number of their arguments."""


class Daemon(socketserver.ThreadingUnixStreamServer):
    """A socket. A request is a folder and the words of a command, as JSON in one line, and so is its answer."""

    daemon_threads = True

    def __init__(self, path: Path, project: Project) -> None:
        super().__init__(str(path), _Request)
        self.project = project
        self._runs = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, folder: str, words: list[str]) -> dict[str, object]:
        """Return the output and the exit code of a command, or the command of this machine that does it."""
        try:
            profile, verb, options, rest = self.parse(Path(folder), words)
            if verb == "up":
                return self.up(options, rest, profile)
            return getattr(self, verb)(options, rest)
        except Refusal as refusal:
            return {"error": f"{refusal}\n", "code": 1}

    def parse(self, folder: Path, words: list[str]) -> tuple[str | None, str, dict[str, str], list[str]]:
        """Return the profile, the verb, its options and the rest. Refuse words that this program does not know."""
        profile = None
        words = words[1:] if words[:1] == ["compose"] else ["", *words]
        while words and words[0] in ("-f", "--file", "--profile"):
            option, value, *words = words
            if option == "--profile":
                profile = value
            elif (folder / value).resolve() != self.project.file.resolve():
                raise Refusal(f"no such file or directory: {value}")
        if not words or words[0] not in VERBS:
            raise Refusal(f"unknown docker command: {words}")
        verb, *remaining_words = words
        options: dict[str, str] = {}
        while remaining_words and remaining_words[0].startswith("-"):
            option, *remaining_words = remaining_words
            if option not in VERBS[verb]:
                raise Refusal(f"unknown flag: {option}")
            options[option] = remaining_words.pop(0) if VERBS[verb][option] else ""
        services = remaining_words[:1] if verb in ("exec", "run") else remaining_words
        for service in services:
            if service not in self.project.services:
                raise Refusal(f"no such service: {service}")
        return profile, verb, options, remaining_words

    def up(self, options, services, profile):
        scale = {}
        if "--scale" in options:
            name, _, number = options["--scale"].partition("=")
            scale[name] = int(number)
        self.project.up(services, profile, scale)
        return {"output": "", "code": 0}

    def stop(self, _, services):
        self.project.stop(services)
        return {"output": "", "code": 0}

    def restart(self, _, services):
        self.project.restart(services)
        return {"output": "", "code": 0}

    def exec(self, options, words):
        service, *command = words
        container = self.project.first(service, int(options.get("--index", 1)))
        arguments, environment = self.project.runner.inside(container, command)
        return {"command": arguments, "environment": environment}

    def run(self, options, words):
        service, *command = words
        self._runs += 1
        key = f"{self.project.name}-{service}-run-{self._runs:x}x"
        container = self.project.create(service, key, command, "no")
        container.start()
        if "--detach" in options:
            return {"output": f"{key}\n", "code": 0}
        while container.state != "exited":
            time.sleep(0.05)
        time.sleep(0.2)  # the last lines of its log
        output = "".join(f"{line}\n" for _, line in container.lines)
        code = container.code
        if "--rm" in options:
            self.project.remove(container)
        return {"output": output, "code": code}

    def ps(self, options, services):
        rows = [("NAME", "SERVICE", "STATUS", "PORTS")]
        for container in self.project.containers.values():
            plan = container.plan
            if (container.running or "--all" in options) and plan.service in (services or self.project.services):
                ports = ", ".join(self.project.services[plan.service].get("ports", []))
                rows.append((plan.name, plan.service, status(container), ports))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return {"output": "".join(f"{line.rstrip()}\n" for line in lines), "code": 0}

    def logs(self, options, services):
        since = time.time() - duration(options["--since"]) if "--since" in options else 0
        lines = []
        for service in services or self.project.services:
            for container in self.project.of(service):
                entries = [(moment, line) for moment, line in container.lines if moment >= since]
                tail = int(options.get("--tail", len(entries)))
                name = container.plan.name.removeprefix(f"{self.project.name}-")
                lines += [(moment, f"{name}  | {line}\n") for moment, line in entries[len(entries) - tail :]]
        return {"output": "".join(line for _, line in sorted(lines)), "code": 0}

    def stats(self, _, services):
        rows = ["NAME   CPU SECONDS   MEM USAGE   PIDS"]
        for service in services or self.project.services:
            running = [container for container in self.project.of(service) if container.running]
            rows += ["   ".join((container.plan.name, *usage(container.init))) for container in running]
        return {"output": "".join(f"{row}\n" for row in rows), "code": 0}


class _Request(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        folder, *words = json.loads(self.rfile.readline())
        self.wfile.write(json.dumps(self.server.answer(folder, words)).encode())


def status(container):
    age = f"{time.time() - container.since:.0f} seconds"
    if container.running:
        return f"Up {age}" + (f" ({container.health})" if container.health else "")
    return {"created": "Created", "restarting": f"Restarting ({container.code}) {age} ago"}.get(
        container.state, f"Exited ({container.code}) {age} ago"
    )


def duration(text):
    """Return the seconds of a duration such as 1h or 10m."""
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


def usage(number):
    """Return the processor time, the memory and the number of threads of the processes of a container."""
    space = Path(f"/proc/{number}/ns/pid").readlink()
    ticks = pages = threads = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "ns" / "pid").readlink() == space:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
                threads = threads + int(fields[17])
                pages = pages + int(fields[21])
        except OSError:  # it has just ended
            continue
    return f"{ticks / 100:.1f}", f"{pages * 4096 / 2**20:.0f}MiB", str(threads)
