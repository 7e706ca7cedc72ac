"""Forks, with which tests start commands: they behave like processes that Python has started."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from benchmarks.harness import place_of
from tests import forks
from tests.queries import make_text
from tests.slowness import patience

WAIT = 60


def fork(code, *arguments, **options):
    return forks.start([sys.executable, "-c", code, *arguments], **options)


def output(code, *arguments, **options):
    """Return the standard output of code."""
    process = forks.run([sys.executable, "-c", code, *arguments], timeout=patience(WAIT), **options)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_code_has_its_arguments_environment_and_folder(tmp_path):
    code = "import os, sys; print(sys.argv, dict(os.environ), os.getcwd(), __name__)"
    text = output(code, "one", "two words", env={"NAME": "value"}, cwd=tmp_path)
    assert text == f"['-c', 'one', 'two words'] {{'NAME': 'value'}} {tmp_path} __main__\n"


def test_another_build_is_no_fork(tmp_path):
    (tmp_path / "hubbub").mkdir()
    (tmp_path / "hubbub" / "__init__.py").write_text("name = 'another build'")
    process = fork(
        "import hubbub; print(hubbub.name)", env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path, stdout=subprocess.PIPE
    )
    assert process.communicate(timeout=patience(WAIT))[0] == b"another build\n"


def test_the_commands_are_imported_in_one_thread():
    modules, threads = output("import sys, os; print(len(sys.modules), len(os.listdir('/proc/self/task')))").split()
    assert int(modules) > 500
    assert threads == "1"


def test_the_outputs_are_streams_of_the_fork():
    assert output("import sys; sys.stdout.reconfigure(errors='replace'); print(sys.stdout.seekable())") == "False\n"


def test_an_exit_code_and_an_error_reach_the_test():
    assert forks.run([sys.executable, "-c", "raise SystemExit(7)"]).returncode == 7
    process = forks.run([sys.executable, "-c", "raise ValueError('why')"])
    assert process.returncode == 1
    assert process.stderr.endswith("ValueError: why\n")
    assert forks.run([forks.INSTALLED, "--version"]).stdout.startswith("hubbub ")
    assert forks.run([sys.executable, "-m", "hubbub", "nothing"]).returncode == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_a_fork(number):
    process = fork("import time; print('up', flush=True); time.sleep(600)", stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(number)
    assert process.wait(patience(WAIT)) == process.poll() == -number
    process.kill()  # changes nothing any more
    process.stdout.close()


def test_forks_share_no_memory_and_no_files(tmp_path):
    """A change in one process is invisible to the next. A pipe ends with its process, whoever runs meanwhile."""
    sleeper = fork("import time; time.sleep(600)")
    try:
        change = "import hubbub.__main__ as main; print(len(main.COMMANDS)); main.COMMANDS.clear()"
        assert output(change) == output(change) != "0\n"
        with (tmp_path / "out").open("wb") as file:
            assert fork("print('here')", stdout=file).wait(patience(WAIT)) == 0
        assert (tmp_path / "out").read_text() == "here\n"
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


def test_several_threads_may_start_forks():
    codes = {}

    def run(number):
        codes[number] = fork(f"raise SystemExit({number})").wait(patience(WAIT))

    threads = [threading.Thread(target=run, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == {number: number for number in range(8)}


ECHO = "import sys; print(len(sys.modules), sys.stdin.readline(), end='', flush=True); sys.stdin.read()"
ESTIMATOR = f"""
import os, sys
from aggregator.publishing.finals.estimator import subprocess

def start():
    command = [sys.executable, "-P", "-c", {ECHO!r}]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ)

process = start()
process.stdin.write(b"a line\\n")
process.stdin.flush()
print(process.stdout.readline().decode(), end="")
process.stdin.close()
print(process.wait())
process = start()
process.kill()
print(process.wait())
"""
"""A worker's way to start an estimator. One ends with its input, and one by a signal."""
EARLY_END = """
import json, os, socket
from aggregator.publishing.finals.estimator import subprocess

read_end, status = os.pipe()
os.close(read_end)
request = {"code": "pass", "argv": ["-c"], "env": {}, "cwd": "/"}
socket.send_fds(subprocess.Popen.keywords["server"], [json.dumps(request).encode()], [status, 1, 2])
"""
"""A worker that is killed between its request for an estimator and the answer."""


def test_the_estimator_of_a_fork_is_a_fork():
    text, *codes = output(ESTIMATOR).splitlines()
    modules, line = text.split(maxsplit=1)
    assert int(modules) > 500
    assert line == "a line"
    assert codes == ["0", "-9"]


def test_a_fork_that_ends_before_its_estimator_starts_harms_nobody():
    for _ in range(2):
        assert output(EARLY_END) == ""


def test_the_command_of_another_program_starts_as_usual():
    process = forks.start(["sh", "-c", "exit 3"], env=os.environ)
    assert isinstance(process, subprocess.Popen)
    assert process.wait(patience(WAIT)) == 3


def test_a_worker_of_a_benchmark_is_no_fork(tansu):
    """A fork has imported everything before, and its estimator is no child of it, so its CPU would be missing."""
    with place_of(tansu, make_text("page", domain=4), 1) as place:
        assert isinstance(place.start().process, subprocess.Popen)
