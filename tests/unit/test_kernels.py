"""The kernels in C count like NumPy, bit for bit. Without a compiler NumPy counts alone."""

import importlib.util
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from oracles import oracle
from oracles.kernels import c_library
from oracles.kernels.popcount import column_counts, row_counts
from oracles.mechanisms.hashing import Hashing
from oracles.multi import multi

ROOT = Path(__file__).parents[2]
both = pytest.mark.skipif(not c_library.in_use(), reason="the kernels are not compiled here, or HUBBUB_KERNELS says so")

ORACLES = {
    **{f"{name} {size}": oracle(name, epsilon=1.0, size=size)
       for name, size in product(("oue", "sue"), (2, 13, 64, 1000))},
    **{f"{name} {size}": oracle(name, epsilon=1.0, size=size) for name, size in product(("grr", "ss"), (3, 256, 300))},
    "grr 70000": oracle("grr", epsilon=1.0, size=70_000),
    **{f"{name} {size}": oracle(name, epsilon=2.0, size=size)
       for name, size in product(("hr", "blh"), (3, 1024, 70_000))},
    **{f"olh {epsilon} of {size}": oracle("olh", epsilon=epsilon, size=size)
       for epsilon, size in product((0.5, 1.0, 2.0, 2.5, 3.5, 4.0, 5.0, 7.0), (5, 1024, 1_000_000))},
    **{solution: multi(solution, sizes=[3, 9, 70], epsilon=1.0) for solution in ("spl", "smp", "rsfd")},
}  # fmt: skip


def drawn(o, count, rng):
    sizes = getattr(o, "sizes", None)
    values = [rng.integers(0, size, count) for size in sizes or (o.size,)]
    return o.perturb(np.column_stack(values) if sizes else values[0], rng)


def tally(o, reports):
    state = o.zeros()
    return o.add(state, reports), state.tolist()


def test_local_hashing_is_tried_with_every_number_of_rows_and_every_width():
    oracles = [o for o in ORACLES.values() if isinstance(o, Hashing)]
    assert {o.hashes for o in oracles} == set(range(1, 9))
    assert {o.width for o in oracles} >= {4, 8, 16, 24}


@both
@pytest.mark.parametrize("name", ORACLES)
def test_every_oracle_has_the_same_counts_with_c_and_numpy(name):
    o = ORACLES[name]
    rng = np.random.default_rng(5)
    for count in (0, 1, 15, 16, 17, 63, 300, 2_000):
        reports = drawn(o, count, rng)
        if o.width > 1:  # a few reports that no honest client sends
            reports[rng.random(count) < 0.1] = rng.integers(0, 256, o.width, np.uint8)
            reports[rng.random(count) < 0.1] = rng.choice([0, 255])
        malformed = o.malformed(reports)
        with c_library.numpy_alone():
            expected = o.malformed(reports)
        assert (malformed is None) == (expected is None)
        if malformed is not None:
            assert np.array_equal(malformed, expected)
            reports = reports[~malformed]
        unaligned = np.frombuffer(b"\0" * (count % 8) + reports.tobytes(), np.uint8)[count % 8 :]  # at any address
        result = tally(o, unaligned.reshape(-1, o.width))
        with c_library.numpy_alone():
            assert result == tally(o, reports)


@both
@pytest.mark.parametrize("width", [1, 3, 8, 129, 2048])
def test_bits_are_counted_alike(width):
    rng = np.random.default_rng(width)
    for count in (0, 1, 16, 31, 255, 256, 257, 5_000):
        for rows in (rng.integers(0, 256, (count, width), np.uint8), np.full((count, width), 255, np.uint8)):
            columns = column_counts(rows)
            ones = row_counts(rows)
            with c_library.numpy_alone():
                assert np.array_equal(columns, column_counts(rows))
                assert np.array_equal(ones, row_counts(rows))


def fuzz_bits(rng, monkeypatch, bits):
    """Compare both kernels on random rows at any address, some of which have an implausible number of ones."""
    monkeypatch.setattr(c_library, "vector_bits", lambda: bits)
    width = int(rng.choice([rng.integers(1, 9), rng.integers(1, 300)]))
    count = int(rng.integers(0, 1_500))
    start = int(rng.integers(0, 9))
    size = 8 * width - int(rng.integers(0, 8))
    rows = rng.integers(0, 256, start + count * width, np.uint8)[start:].reshape(count, width)
    rows[rng.random(count) < 0.05] = rng.choice([0, 255])
    low, high = sorted(rng.integers(0, 8 * width + 1, 2).tolist())
    bins = rng.integers(0, 64, 8 * width + 1)
    ones = np.bitwise_count(rows).sum(axis=1, dtype=np.int64)
    plausible = (low <= ones) & (ones <= high)
    for check in (False, True):
        counts, marks, left_out = np.ones(size, np.int64), np.ones(64, np.int64), 0
        if check:
            left_out = c_library.add_plausible(counts, rows, bins, (low, high), marks)
        else:
            c_library.add_bits(counts, rows)
        with c_library.numpy_alone():
            expected = column_counts(rows[plausible] if check else rows)[:size]
        assert np.array_equal(counts - 1, expected)
        assert left_out == (np.count_nonzero(~plausible) if check else 0)
        assert np.array_equal(marks - 1, np.bincount(bins[ones[plausible]], minlength=64) * check)
    assert np.array_equal(c_library.row_ones(rows), ones)


@both
@pytest.mark.parametrize("bits", [64, 256, 512])
@pytest.mark.parametrize("rounds", [150, pytest.param(10_000, marks=pytest.mark.long)])
def test_vectors_of_every_width_count_bits_like_numpy(bits, rounds, monkeypatch):
    if bits > c_library.vector_bits():
        pytest.skip(f"this processor has no vectors of {bits} bits")
    rng = np.random.default_rng(bits)
    for _ in range(rounds):
        fuzz_bits(rng, monkeypatch, bits)


def test_numpy_alone_is_for_a_while():
    earlier_name = c_library.name()
    with c_library.numpy_alone():
        assert c_library.name() == "numpy"
    assert c_library.name() == earlier_name


def version_of(**environment):
    process = subprocess.run(
        [sys.executable, "-m", "hubbub", "--version"],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return process.stdout.split("kernels: ")[1].strip()


def test_the_variable_forces_numpy():
    assert version_of(HUBBUB_KERNELS="numpy") == "numpy (HUBBUB_KERNELS=numpy turns the kernels in C off)"


@both
def test_otherwise_they_are_taken():
    assert version_of(HUBBUB_KERNELS="") == "c"


@both
def test_a_library_of_another_source_is_not_taken(monkeypatch):
    monkeypatch.setattr(c_library, "_INTERFACE", 0)
    assert c_library._load() is None


@pytest.fixture
def hook(monkeypatch, tmp_path):
    """Build the kernels from a copy of the sources. The build hook itself is not needed."""
    interface = ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = type("Hook", (), {"__class_getitem__": classmethod(lambda cls, _: cls)})
    parts = interface.__name__.split(".")
    for i in range(1, len(parts)):
        monkeypatch.setitem(sys.modules, ".".join(parts[:i]), ModuleType(".".join(parts[:i])))
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shutil.copytree(ROOT / "oracles/kernels/source", tmp_path / "oracles/kernels/source")
    hook = module.CustomBuildHook()
    hook.root = str(tmp_path)
    hook.target_name = "wheel"
    monkeypatch.setattr(module.CustomBuildHook, "complete", True)
    stale = tmp_path / "oracles/kernels/_compiled.abi3.so"
    stale.write_bytes(b"of another day")
    hook.library = stale
    return hook


def built(hook):
    data = {"artifacts": []}
    hook.initialize("standard", data)
    return data


def test_without_a_compiler_a_build_goes_on_with_numpy(hook, monkeypatch, capsys):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert hook.dependencies() == []
    assert built(hook) == {"artifacts": []}
    assert not hook.library.exists()
    assert capsys.readouterr().err.count("\n") == 1


def test_a_compiler_that_fails_breaks_no_build(hook, monkeypatch, capfd):
    monkeypatch.setenv("CC", "false")
    assert built(hook) == {"artifacts": []}
    assert not hook.library.exists()
    [message] = [line for line in capfd.readouterr().err.splitlines() if line.startswith("hubbub:")]
    assert "so NumPy counts" in message


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler here")
def test_with_a_compiler_the_wheel_is_of_this_machine_and_every_python(hook):
    pytest.importorskip("cffi")
    data = built(hook)
    assert data["pure_python"] is False
    assert data["tag"].startswith("cp311-abi3-")
    assert [hook.library.relative_to(hook.root).as_posix()] == data["artifacts"]
    assert hook.library.read_bytes().startswith((b"\x7fELF", b"\xcf\xfa"))


def test_an_sdist_holds_no_library(hook):
    hook.target_name = "sdist"
    assert built(hook) == {"artifacts": []}
    assert hook.dependencies() == []
