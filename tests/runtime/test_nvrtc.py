"""NVRTC lives in child processes that are kept, and replaced when they hang or die."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from autotune.errors import CompileError, CompileTimeout
from autotune.kernel import SourceKernel, arg
from autotune.runtime import compile_kernel
from autotune.runtime.compile import nvrtc
from autotune.target import Target
from tests.runtime.compilers import needs_nvrtc

SOURCE = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= FACTOR; }'


pytestmark = needs_nvrtc


@pytest.fixture(autouse=True)
def no_child_before_and_after():
    nvrtc._close_idle()
    yield
    nvrtc._close_idle()


def compiled(folder, factor="2.0f", timeout_s=60):
    kernel = SourceKernel(
        "twice", SOURCE, [arg("x", (32,), role="inout")], {"FACTOR": factor}, block=32
    ).kernel("cuda")
    target = Target("cuda -arch=sm_90")
    return compile_kernel(
        kernel, target, timeout_s=timeout_s, compiler="nvrtc", out_dir=folder, use_cache=False
    )


def idle_pids():
    return [child.pid for child in nvrtc._idle]


def test_one_child_compiles_kernel_after_kernel(tmp_path):
    first = compiled(tmp_path)
    pids = idle_pids()
    assert len(pids) == 1
    second = compiled(tmp_path, "3.0f")
    assert idle_pids() == pids
    assert Path(first.artifact).read_bytes() != Path(second.artifact).read_bytes()
    assert compiled(tmp_path).code_hash == first.code_hash


def test_a_refused_source_costs_no_child(tmp_path):
    compiled(tmp_path)
    pids = idle_pids()
    with pytest.raises(CompileError, match="unknown_name"):
        compiled(tmp_path, "unknown_name")
    assert idle_pids() == pids
    compiled(tmp_path)


def test_a_child_that_does_not_answer_in_time_is_killed(tmp_path):
    compiled(tmp_path)
    (pid,) = idle_pids()
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(CompileTimeout):
        compiled(tmp_path, timeout_s=0.2)
    assert idle_pids() == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    compiled(tmp_path)


def test_a_child_that_died_idle_costs_no_kernel(tmp_path):
    compiled(tmp_path)
    (pid,) = idle_pids()
    os.kill(pid, signal.SIGKILL)
    compiled(tmp_path)
    assert idle_pids() != [pid]


def script(folder, then):
    """Start a process that compiles one kernel and then goes on as told."""
    text = f"""
        import os, sys, time
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        from tests.runtime.test_nvrtc import compiled, idle_pids
        compiled({str(folder)!r})
        {then}
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text)], stdout=subprocess.PIPE, text=True
    )


def test_a_fork_leaves_the_children_to_its_parent(tmp_path):
    then = "print(os.waitpid(pid, 0)[1] if (pid := os.fork()) else os._exit(len(idle_pids())))"
    with script(tmp_path, then) as user:
        assert user.stdout.readline().split() == ["0"]


def test_the_child_ends_with_the_process_that_uses_it(tmp_path):
    with script(tmp_path, "print(*idle_pids(), flush=True); time.sleep(60)") as user:
        pid = int(user.stdout.readline())
        assert alive(pid)
        user.kill()
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(pid)


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
