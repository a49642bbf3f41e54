"""What errors of CUDA's driver say beyond its own words."""

import ctypes
import os

import pytest

from autotune.errors import DeviceError
from autotune.runtime.nvidia import libcuda

ILLEGAL = "an illegal memory access was encountered"
FORKED = "initialization error"


class Driver:
    """A driver that knows the words for two errors."""

    def cuGetErrorString(self, status, out):
        out._obj.value = {3: FORKED, 700: ILLEGAL}[status.value].encode()


@pytest.fixture(autouse=True)
def driver(monkeypatch):
    monkeypatch.setattr(libcuda, "library", Driver)
    monkeypatch.setattr(libcuda, "_broken_by", set())


def said(name, status):
    with pytest.raises(DeviceError) as caught:
        libcuda.check(name, ctypes.c_int(status).value)
    return str(caught.value)


def test_calls_after_a_kernel_that_broke_the_context_say_so():
    assert said("cuStreamSynchronize", 700) == (
        f'cuStreamSynchronize failed: {ILLEGAL}; the target "cuda -emulate" tells in which thread '
        "and line, at small sizes"
    )
    for name in ("cuModuleLoadData", "cuMemAlloc_v2"):
        assert said(name, 700) == (
            f"{name} failed: {ILLEGAL} earlier, and this process cannot use the GPU any more: "
            "start another"
        )
    assert "-emulate" in libcuda.advice("misaligned address")
    assert libcuda.advice("out of memory") == ""


def test_a_forked_process_that_cannot_use_cuda_is_told_why(monkeypatch):
    libcuda._first_process()
    assert said("cuInit", 3) == f"cuInit failed: {FORKED}"
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    assert 'multiprocessing.get_context("spawn")' in said("cuCtxPushCurrent_v2", 3)


def test_code_of_another_architecture_is_explained_by_the_target():
    words = "no kernel image is available for execution on the device"
    assert "leave -arch out" in libcuda.advice(words)
