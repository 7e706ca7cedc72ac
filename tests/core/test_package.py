"""The core as a program gets it: one file that compiles alone, its size, its stack, and the quick start."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from tests.brokers import Unavailable, skip
from tests.core.compiler import SOURCE, WARNINGS, compiler, run
from tests.core.test_definitions import body_of, good

OUTSIDE = {"memcpy", "memmove", "memset", "memcmp"}
MOST_BYTES = 40_000
MOST_STACK = 16 * 1024
NESTING = 9
"""A function that calls itself does so once for each level of JSON, which nests at most 8 deep."""
PRELUDE = """
#include "hubbub.h"
#include <string.h>
extern void commit(const hubbub_buffer *state, const hubbub_buffer *frame);
extern hubbub_buffer state, frame, work;
extern hubbub_query query;
int answer(const uint8_t *, int64_t, int, hubbub_text, hubbub_text, hubbub_text);
int answer(const uint8_t *key, int64_t now, int is_first_start,
           hubbub_text listing, hubbub_text name, hubbub_text pinned) {
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the amalgamation and its header."""
    folder = tmp_path_factory.mktemp("core")
    try:
        compiler()
    except Unavailable as error:
        skip(error)
    shutil.copytree(SOURCE, folder, dirs_exist_ok=True)
    run(sys.executable, "amalgamate.py", "hubbub.c", cwd=folder)
    return folder


def compile_alone(folder, *flags, command=None):
    """Compile the amalgamation, and return the object."""
    run(command or compiler(), *WARNINGS, *flags, "-I.", "-c", "hubbub.c", "-o", "hubbub.o", cwd=folder)
    return folder / "hubbub.o"


@pytest.fixture(scope="module")
def small(folder):
    """The object without tables for debuggers, and beside it the graph of its calls."""
    flags = ["-fno-asynchronous-unwind-tables", "-fstack-usage", "-fcallgraph-info=su"]
    return compile_alone(folder, "-Os", *flags).rename(folder / "small.o")


def test_one_file_compiles_without_a_warning(folder):
    symbols = run("nm", "--undefined-only", compile_alone(folder, "-O3")).split()
    assert set(symbols) - {"U", "_GLOBAL_OFFSET_TABLE_"} <= OUTSIDE


@pytest.mark.long
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2"])
@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_no_compiler_warns_at_any_level(folder, name, level):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    compile_alone(folder, level, command=name)


def test_the_header_is_good_for_cpp(folder):
    if shutil.which("g++") is None:
        pytest.skip("no compiler of C++ is installed")
    (folder / "header.cpp").write_text('#include "hubbub.h"\nint main() { return (int)hubbub_api() - HUBBUB_API; }\n')
    run("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-c", "header.cpp", cwd=folder)


def test_the_core_needs_four_functions_from_outside(small):
    assert set(run("nm", "--undefined-only", small).split()) - {"U"} <= OUTSIDE


def test_only_the_public_calls_are_visible(small):
    symbols = run("nm", "--defined-only", "--extern-only", small).split()
    names = {name for name in symbols if name.startswith(("hubbub", "hb_"))}
    declared = set(re.findall(r"\b(hubbub_\w+)\(", (SOURCE / "hubbub.h").read_text()))
    assert names == declared
    assert len(names) == 11


def test_the_core_is_small(small):
    text, data, bss = map(int, run("size", small).splitlines()[1].split()[:3])
    assert text + data <= MOST_BYTES
    assert bss == 0


def reached(graph, name):
    """Return all functions that a function calls, also through others."""
    functions = set()
    waiting = [name]
    while waiting:
        callees = graph.get(waiting.pop(), set()) - functions
        functions |= callees
        waiting += callees
    return functions


def deepest(graph, sizes, name, path=()):
    """Return the bytes of the deepest call from a function on."""
    if path.count(name) == (NESTING if name in reached(graph, name) else 1):
        return 0
    deeper = max((deepest(graph, sizes, callee, (*path, name)) for callee in graph.get(name, ())), default=0)
    return sizes.get(name, 0) + deeper


def test_the_stack_is_bounded(small):
    text = small.with_name("hubbub.ci").read_text()
    nodes = re.findall(r'node: \{ title: "([^"]+)" label: "[^"]*?(\d+) bytes \((\w+)\)', text)
    assert all(kind == "static" for _, _, kind in nodes)
    sizes = {name: int(size) for name, size, _ in nodes}
    graph = {}
    for caller, callee in re.findall(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', text):
        graph.setdefault(caller, set()).add(callee)

    depths = {name: deepest(graph, sizes, name) for name in sizes if name.startswith("hubbub_")}
    assert len(depths) == 11
    assert max(depths.values()) <= MOST_STACK


def test_the_quick_start_of_the_readme_works(folder):
    readme = (SOURCE / "README.md").read_text()
    (code,) = re.findall(r"```c\n(.*?)```", readme, re.DOTALL)
    assert len(code.splitlines()) <= 10
    (folder / "quick.c").write_text(f"{PRELUDE}{code}return code;\n}}\n")
    run(compiler(), "-std=c99", "-Wall", "-Wextra", "-Werror", "-I.", "-c", "quick.c", cwd=folder)

    (folder / "listing.json").write_text(f'{{"queries": [{body_of(good("size"))}]}}')
    commands = [shlex.split(line) for line in re.findall(r"^\$ (.*)$", readme, re.MULTILINE)]
    frame, sentence = [run(*command, cwd=folder) for command in commands][-1].splitlines()
    assert bytes.fromhex(frame).startswith(b"HBB1")
    assert sentence == "The call succeeded."

    process = subprocess.run(commands[-1], cwd=folder, check=False, capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (1, "This period has its answer.\n")


def test_cmake_installs_the_library(folder, tmp_path):
    if shutil.which("cmake") is None:
        skip(Unavailable("cmake is not installed (apt-get install cmake)"))
    environment = {**os.environ, "CC": compiler()}
    for command in (
        ["cmake", "-S", folder, "-B", tmp_path / "build", f"-DCMAKE_INSTALL_PREFIX={tmp_path}"],
        ["cmake", "--build", tmp_path / "build"],
        ["cmake", "--install", tmp_path / "build"],
    ):
        run(*command, env=environment)
    (library,) = tmp_path.glob("lib*/**/libhubbub.a")
    (package,) = tmp_path.glob("lib*/**/hubbub.pc")
    assert library.parent == package.parents[1]
    assert f"prefix={tmp_path}" in package.read_text()
    assert (tmp_path / "include" / "hubbub.h").exists()
