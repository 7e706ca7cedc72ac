"""Processes of hubbub that begin with everything imported, because they are forks of a server that only imports.

A start needs 30 ms of CPU in place of one to three seconds. Apart from the imports nothing differs: each process has
its own memory, files and signals. The estimator of a worker is a fork too, which saves half a second of CPU. Tests of
the start, of memory, of the demo and of documents run the real command.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

PREPARED = (
    "hubbub.__main__",
    "aggregator.worker.command",
    "aggregator.worker.start",
    "aggregator.publishing.finals.estimator",
    "scipy.optimize",
    "aggregator.board.command",
    "aggregator.reading.tail.command",
    "producers.gateway.command",
    "producers.simulation.simulate",
)
"""The modules that the server imports: those of the commands that tests start most often."""
ROOT = Path(__file__).parent.parent
INSTALLED = Path(sys.executable).with_name("hubbub")
HUBBUB = "import sys; from hubbub.__main__ import main; sys.exit(main())"
LONGEST = 1 << 18
"""The most bytes of a request."""


def start(command, **options):
    """Start a command as a fork. Commands of other programs, and of other builds of hubbub, start as usual."""
    is_fork = code_of(command) is not None and not _is_other_build(options.get("env"))
    return Fork(command, **options) if is_fork else subprocess.Popen(command, **options)


def _is_other_build(env):
    """Whether an environment names modules of its own. A fork would ignore it, because it has imported everything."""
    folder = (env or {}).get("PYTHONPATH")
    return folder is not None and folder != os.environ.get("PYTHONPATH")


def run(command, *, env=None, cwd=None, timeout=None):
    """Return the exit code and the outputs of a command, as `subprocess.run` does."""
    process = Fork(command, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        texts = process.communicate(timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, *texts)


class Fork:
    """A process with the interface of `subprocess.Popen`. Its command is `hubbub` or Python code."""

    def __init__(self, command, *, env=None, cwd=None, stdin=None, stdout=None, stderr=None, text=False, server=None):
        self.args = [*map(str, command)]
        self.returncode = None
        code, arguments = code_of(command)
        environment = dict(os.environ if env is None else env)
        request = {"code": code, "argv": arguments, "env": environment, "cwd": str(cwd or Path.cwd())}

        streams = [Output(stdout, 1, text), Output(stderr, 2, text)]
        self.stdout, self.stderr = (stream.end for stream in streams)
        self.stdin = None
        if stdin == subprocess.PIPE:
            streams.append(Input())
            self.stdin = streams[-1].end

        self._status, status = os.pipe()
        files = [status, *(stream.file for stream in streams)]
        socket.send_fds(server or connection(), [json.dumps(request).encode()], files)
        os.close(status)
        for stream in streams:
            stream.close()
        self.pid = self._read()

    def poll(self):
        """Return the exit code, or None if the process runs."""
        if self.returncode is None and self._has_ended(0):
            self.wait()
        return self.returncode

    def wait(self, timeout=None):
        """Return the exit code."""
        if self.returncode is None:
            if not self._has_ended(timeout):
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = self._read()
            os.close(self._status)
        return self.returncode

    def send_signal(self, number):
        """Send a signal to the process, if it runs."""
        if self.poll() is None:
            # The server may have seen the end, and not yet have written about it.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout=None):
        """Wait for the end, and return the rest of both outputs."""
        texts = {}

        def read(pipe):
            texts[pipe] = pipe.read()

        pipes = [pipe for pipe in (self.stdout, self.stderr) if pipe is not None and not pipe.closed]
        # A process that nobody reads from would wait for its reader.
        readers = [threading.Thread(target=read, args=[pipe], daemon=True) for pipe in pipes]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader, pipe in zip(readers, pipes, strict=True):
            reader.join()
            pipe.close()
        return texts.get(self.stdout), texts.get(self.stderr)

    def _has_ended(self, timeout):
        return bool(select.select([self._status], [], [], timeout)[0])

    def _read(self):
        """Return the next number that the server writes about the process."""
        number = os.read(self._status, 4)
        assert number, "the server of forks has ended"
        return int.from_bytes(number, "little", signed=True)


class Input:
    """A pipe for the input of a process. `end` is its end of the one who writes."""

    def __init__(self):
        self.file, write_end = os.pipe()
        self.end = os.fdopen(write_end, "wb")

    def close(self):
        """Close the end of the process, which has a copy."""
        os.close(self.file)


class Output:
    """A file for the output of a process, or a pipe. `end` is the end of the pipe that the test reads."""

    def __init__(self, target, standard, text):
        self.end = None
        self._is_own = target in (subprocess.PIPE, subprocess.DEVNULL)
        if target == subprocess.PIPE:
            read_end, self.file = os.pipe()
            self.end = os.fdopen(read_end, "r" if text else "rb")
        elif target == subprocess.DEVNULL:
            self.file = os.open(os.devnull, os.O_WRONLY)
        else:
            self.file = standard if target is None else target.fileno()

    def close(self):
        """Close the end of the process, which has a copy."""
        if self._is_own:
            os.close(self.file)


def code_of(command):
    """Return the code that a command of hubbub or of Python runs, and its `sys.argv`. Return None for others."""
    match [str(word) for word in command]:
        case [program, *arguments] if program == str(INSTALLED):
            return HUBBUB, [program, *arguments]
        case [sys.executable, "-m", "hubbub", *arguments]:
            return HUBBUB, [str(INSTALLED), *arguments]
        case [sys.executable, "-c", code, *arguments] | [sys.executable, "-P", "-c", code, *arguments]:
            return code, ["-c", *arguments]
    return None


@cache
def connection():
    """Start the server of this process, and return the connection to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.forks", str(theirs.fileno())]
        # A second thread of NumPy would not exist in the forks.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        number = theirs.fileno()
        server = subprocess.Popen(command, env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[number])

    def end():
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def serve(requests, requests_of_forks):
    """Fork a process for each request, until the tests end. Return the request in the process that runs it."""
    running = {}
    while True:
        ready, _, _ = select.select([requests, requests_of_forks, *running], [], [])
        for handle in set(ready) & running.keys():
            report(*running.pop(handle))
            os.close(handle)

        for channel in [end for end in (requests, requests_of_forks) if end in ready]:
            text, files, _, _ = socket.recv_fds(channel, LONGEST, 4)
            if not text:
                return None
            pid = os.fork()
            if pid == 0:
                requests.close()
                requests_of_forks.close()
                for handle, (_, status) in running.items():
                    os.close(handle)
                    os.close(status)
                return json.loads(text), files

            status, *streams = files
            for file in streams:
                os.close(file)
            with contextlib.suppress(BrokenPipeError):  # the worker that asked may have been killed meanwhile
                os.write(status, pid.to_bytes(4, "little"))
            running[os.pidfd_open(pid)] = pid, status


def report(pid, status):
    """Write the exit code of a process that has ended, as `subprocess` states it."""
    _, code = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):  # a test may end before its processes
        os.write(status, os.waitstatus_to_exitcode(code).to_bytes(4, "little", signed=True))
    os.close(status)


def become(request, files):
    """Turn this process into the one of the request, and return its code."""
    _, *streams = files
    for number, file in zip((1, 2, 0), streams, strict=False):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    # The streams of the server would seek in a pipe as if it were their old file.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = request["argv"]
    return compile(request["code"], "<command of a test>", "exec")


def main():
    """Import everything, and serve. Return as `serve` does."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    for name in PREPARED:
        importlib.import_module(name)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fork_estimators(ours)
    # The collector would copy the pages of all these objects in each process.
    gc.freeze()
    return serve(requests, theirs)


def fork_estimators(server):
    """Let the workers among the forks start their estimators as forks, over this connection to the server."""
    module = sys.modules["aggregator.publishing.finals.estimator"]
    module.subprocess = SimpleNamespace(Popen=partial(Fork, server=server), PIPE=subprocess.PIPE)


if __name__ == "__main__":
    job = main()
    if job is not None:
        exec(become(*job), {"__name__": "__main__"})  # noqa: S102 - the code of a test
