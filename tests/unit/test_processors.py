"""A final's bytes are the same with and without the processor's fused multiplication and wide registers."""

import os
import platform
import subprocess
import sys

import pytest

from tests.brokers import ROOT

OFF = "glibc.cpu.hwcaps=" + ",".join(f"-{name}" for name in ("AVX2", "FMA", "FMA4", "AVX512F", "AVX512VL", "AVX512DQ"))


def start(plain, slow, **env):
    command = [sys.executable, "-m", "tests.processors", str(plain), str(slow)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", **env}
    return subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def lines(process):
    """Return a line for each final, and a last line for libm."""
    *finals, libm = process.communicate()[0].splitlines()
    assert process.returncode == 0
    return finals, libm


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="GLIBC_TUNABLES is glibc's")
@pytest.mark.parametrize(("plain", "slow"), [(976, 24), pytest.param(0, 1000, marks=pytest.mark.long)])
def test_a_thousand_finals_are_alike_with_and_without_fused_multiplication(plain, slow):
    with start(plain, slow) as fused, start(plain, slow, GLIBC_TUNABLES=OFF) as plain_run:
        (local_lines, libm), (other_lines, other_libm) = lines(fused), lines(plain_run)
    if libm == other_libm:
        pytest.skip("this processor has no fused multiplication to switch off")
    assert len(local_lines) == plain + slow
    assert len(set(local_lines)) > 0.99 * len(local_lines)
    assert other_lines == local_lines
