"""Projects of CUDA kernels, whose launcher runs on a driver that only notes what it is asked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.errors import CompilerMissing
from autotune.record import load_from_file
from autotune.runtime.compile.toolchain import nvcc_toolchain
from autotune.ship import gather, write_project
from tests.ship import exported
from tests.ship.test_ship import files, same

STEPS = ("tests.ship.steps", (100, "cuda"))
CALL = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.tuned_message.restype = ctypes.c_char_p
pointers = [ctypes.c_void_p(i) for i in (11, 12, 13, 14)]
for _ in range(2):
    status = library.tuned_tests_ship_steps_100_cuda(
        ctypes.c_float(1.0), *pointers, ctypes.c_void_p(5))
    ctypes.CDLL(None).fflush(None)  # what the driver printed, where Python has a buffer of its own
    print(status, library.tuned_message(status).decode(), flush=True)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    try:
        nvcc_toolchain()
    except CompilerMissing:
        pytest.skip("there is no nvcc")
    folder = tmp_path_factory.mktemp("cuda")
    log = exported.write(folder / "best.log", STEPS, target="cuda -arch=sm_90")
    shipment = gather(load_from_file(log), "tuned", ["sm_80", "sm_100"])
    assert shipment.left_out == ()
    return write_project(shipment, folder / "tuned")


@pytest.fixture(scope="module")
def driver(project):
    folder = project.parent / "driver"
    folder.mkdir()
    source = Path(__file__).parent / "fake_driver.c"
    command = ["cc", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", source]
    subprocess.run(command, check=True, timeout=60)
    return folder


def called(project, **environment):
    library = project / "python" / "tuned" / "libtuned.so"
    run = [sys.executable, "-c", CALL, library]
    done = subprocess.run(
        run, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("arch", "loaded"),
    [
        (80, "cubin 80"),
        (86, "cubin 80"),
        (90, "cubin 90"),
        (100, "cubin 100"),
        (103, "cubin 100"),
        (120, "ptx 100"),
    ],
)
def test_each_device_gets_the_code_that_is_nearest_to_it(project, driver, arch, loaded):
    said = called(project, LD_LIBRARY_PATH=str(driver), FAKE_ARCH=str(arch))
    assert said.count(f"load {loaded}") == 1
    assert sum(line.startswith("load") for line in said) == 1


def test_kernels_are_queued_in_order_on_the_stream_that_is_given(project, driver):
    said = called(project, LD_LIBRARY_PATH=str(driver), FAKE_ARCH="90")
    once = [
        "allocate 400 on 5",
        "global bias",
        "copy 12 to 7: 400",
        "launch _Z5firstILi3 2x1 of 64, 0 bytes, stream 5, first 11",
        "launch second 2x1 of 64, 256 bytes, stream 5, first 1065353216",
        "free 99 on 5",
        "0 no error",
    ]
    assert said == ["load cubin 90", "shared 256 of second", *once, *once]


def test_a_device_for_which_there_is_no_code_and_no_driver_are_said_in_words(project, driver):
    said = called(project, LD_LIBRARY_PATH=str(driver), FAKE_ARCH="75")
    assert said == ["-4 no kernel was exported for this kind of device"] * 2
    (driver.parent / "none").mkdir(exist_ok=True)
    (driver.parent / "none" / "libcuda.so.1").write_text("no library")
    said = called(project, LD_LIBRARY_PATH=str(driver.parent / "none"))
    assert said == ["-3 no NVIDIA driver of CUDA 12.0 or later was found"] * 2


def test_two_exports_are_equal_byte_for_byte_though_everything_is_compiled_anew(
    project, tmp_path, monkeypatch
):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    log = project.parent / "best.log"
    shipment = gather(load_from_file(log), "tuned", ["sm_100", "sm_80"])
    again = write_project(shipment, tmp_path / "elsewhere" / "tuned")
    assert files(again) == files(project)
    assert [name for name in files(again) if not same(again / name, project / name)] == []


def test_what_cannot_be_made_for_an_architecture_is_left_out_and_said(tmp_path):
    log = exported.write(tmp_path / "x.log", STEPS, target="cuda -arch=sm_90")
    shipment = gather(load_from_file(log), "tuned", ["sm_20"])
    (line,) = shipment.left_out
    assert line.startswith("tests.ship.steps(100, 'cuda') for sm_20: ")
    images = shipment.functions[0].workloads[0].images
    assert [(image.kind, image.arch) for image in images] == [("cubin", "sm_90"), ("ptx", "sm_90")]
