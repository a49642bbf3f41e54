import contextlib
import gc
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from autotune.errors import AutotuneError, DeviceError, KernelError
from autotune.kernel import SourceKernel, arg, call
from autotune.runtime import Module, array, compile_kernel, cpu, cuda, empty, export, load_module
from autotune.runtime.device_module import DeviceFile
from autotune.target import Target

C = Target("c")


def built(kernel, target, folder):
    output = compile_kernel(kernel, target, out_dir=folder)
    with open(output.artifact, "rb") as file:
        suffix = output.artifact[output.artifact.rindex(".") :]
        return Module(kernel, target, file.read(), suffix, output.resources)


@pytest.fixture
def axpy(tmp_path):
    kernel = SourceKernel(
        "axpy",
        "void axpy(const float *x, float *y, int *calls) {\n"
        "  for (int i = 0; i < 12; i++) y[i] += 2 * x[i];\n  calls[0] = 7; }",
        [
            arg("x", (3, 4)),
            arg("y", (3, 4), role="inout"),
            arg("calls", (1,), "int32", role="out"),
        ],
    ).kernel("c")
    return built(kernel, C, tmp_path)


@pytest.fixture
def x():
    return np.arange(12, dtype="float32").reshape(3, 4)


def test_numpy_arrays_are_used_in_place(axpy, x):
    y, calls = np.ones((3, 4), "float32"), np.zeros(1, "int32")
    assert axpy(x, y, calls) is None
    np.testing.assert_array_equal(y, 1 + 2 * x)
    assert calls[0] == 7


def test_our_arrays_are_used_in_place(axpy, x):
    y, calls = array(np.ones((3, 4), "float32")), empty((1,), "int32")
    axpy(array(x), y, calls)
    np.testing.assert_array_equal(y.numpy(), 1 + 2 * x)
    assert calls.numpy()[0] == 7


def test_arrays_that_are_not_contiguous_are_copied_and_written_back(axpy, x):
    whole = np.ones((4, 6), "float32", order="F")
    axpy(x[::-1], whole[1:, 1:5], np.zeros(1, "int32"))
    np.testing.assert_array_equal(whole[1:, 1:5], 1 + 2 * x[::-1])
    assert (whole[0] == 1).all()
    assert (whole[:, 5] == 1).all()


def test_an_output_whose_elements_share_memory_is_refused(axpy, x):
    one = np.ones((3, 1), "float32")
    y = np.lib.stride_tricks.as_strided(one, (3, 4), (4, 0))
    with pytest.raises(KernelError, match="'y': it is written by the kernel, but its elements"):
        axpy(x, y, np.zeros(1, "int32"))
    assert (one == 1).all()


def test_arrays_that_are_not_aligned_are_copied_and_written_back(axpy, x):
    raw = np.zeros(12 * 4 + 4, "uint8")
    y = raw[4:].view("float32").reshape(3, 4)
    axpy(x, y, np.zeros(1, "int32"))
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize("where", ["in place", "not contiguous", "not aligned"])
def test_what_a_kernel_does_not_write_keeps_its_value(tmp_path, where):
    text = "void half(const float *x, float *y) { for (int i = 0; i < 4; i++) y[i] = x[i]; }"
    kernel = SourceKernel("half", text, [arg("x", (8,)), arg("y", (8,), role="out")]).kernel("c")
    x = np.arange(8, dtype="float32")
    y = {
        "in place": np.zeros(8, "float32"),
        "not contiguous": np.zeros(16, "float32")[::2],
        "not aligned": np.zeros(8 * 4 + 4, "uint8")[4:].view("float32"),
    }[where]
    y[:] = 7
    built(kernel, C, tmp_path)(x, y)
    np.testing.assert_array_equal(y, [0, 1, 2, 3, 7, 7, 7, 7])


def test_arrays_of_other_libraries_are_used_in_place(axpy, x):
    class Foreign:
        def __init__(self, values):
            self.values = values

        def __dlpack__(self, **options):
            return array(self.values).__dlpack__() if options else self.values.__dlpack__()

        def __dlpack_device__(self):
            return self.values.__dlpack_device__()

    y = np.zeros((3, 4), "float32")
    axpy(Foreign(x), Foreign(y), Foreign(np.zeros(1, "int32")))
    np.testing.assert_array_equal(y, 2 * x)


def test_torch_tensors_are_used_in_place(axpy, x):
    torch = pytest.importorskip("torch")
    y = torch.ones(3, 4)
    axpy(torch.from_numpy(x), y, torch.zeros(1, dtype=torch.int32))
    np.testing.assert_array_equal(y.numpy(), 1 + 2 * x)


BAD = [
    ((), r"axpy: expected 3 arguments \(x, y, calls\), got 0"),
    ((0, 1, 2), "argument 'x': expected an array .* got int"),
    ((np.ones((4, 3), "f4"),) * 3, r"argument 'x': expected shape \(3, 4\), got \(4, 3\)"),
    (
        (np.ones((3, 4)),) * 3,
        r"'x': expected dtype float32, got float64; .* \.astype\('float32'\)",
    ),
    (
        (np.ones((3, 4), "f4"), np.ones((3, 4)), 2),
        "'y': .* got float64; make the array as float32",
    ),
    (([1.0], 1, 2), r"'x': expected .* got list; numpy\.asarray\(\.\.\., 'float32'\) makes"),
    ((np.ones((3, 4), "f4"), [1.0], 2), "'y': expected .* got list; make an array before"),
]


@pytest.mark.parametrize(("args", "message"), BAD)
def test_what_does_not_fit_is_named(axpy, args, message):
    with pytest.raises(KernelError, match=message):
        axpy(*args)


def test_a_written_argument_must_be_writeable(axpy, x):
    y = np.ones((3, 4), "float32")
    y.flags.writeable = False
    with pytest.raises(KernelError, match="'y': it is written by the kernel"):
        axpy(x, y, np.zeros(1, "int32"))


def test_the_time_evaluator_is_tvms(axpy, x):
    y, calls = array(np.ones((3, 4), "float32")), empty((1,), "int32")
    evaluator = axpy.time_evaluator(axpy.entry_name, cpu(0), number=5, repeat=4, min_repeat_ms=0)
    result = evaluator(array(x), y, calls)
    assert len(result.results) == 4
    assert 0 < result.min <= result.median <= result.max < 1
    assert result.mean == pytest.approx(np.mean(result.results))
    assert result.std >= 0
    assert "median" in str(result)
    # In-place arguments were restored before each run.
    np.testing.assert_array_equal(y.numpy(), 1 + 2 * x)
    assert calls.numpy()[0] == 7


def test_the_time_evaluator_checks_whom_it_is_asked_for(axpy):
    with pytest.raises(KernelError, match=r"func_name must be 'axpy', .*got 'other'"):
        axpy.time_evaluator("other", cpu())
    with pytest.raises(KernelError, match=r"dev must be cpu:0, where axpy runs, got .*cuda"):
        axpy.time_evaluator("axpy", cuda())


def test_the_parts_of_a_module_have_tvms_names(axpy):
    assert axpy.entry_func is axpy
    assert axpy["axpy"] is axpy.get_function("axpy", query_imports=True) is axpy
    assert "void axpy" in axpy.get_source()
    assert axpy.imported_modules[0].get_source() == axpy.get_source("c")
    assert axpy.imported_modules[0].type_key == "c"
    assert axpy.resources["code_bytes"] > 0
    with pytest.raises(KernelError, match=r"fmt must be empty or .c., .* got .ptx."):
        axpy.get_source("ptx")
    assert repr(axpy) == "Module('axpy', target='c -keys=cpu')"


def test_a_module_saved_as_an_object_file_is_read_back(axpy, x, tmp_path):
    axpy.save(tmp_path / "axpy.o")
    axpy.imported_modules[0].save(tmp_path / "axpy.c")
    assert (tmp_path / "axpy.c").read_text() == axpy.get_source()
    read = load_module(tmp_path / "axpy.o")
    read.import_module(axpy.imported_modules[0])
    y = np.ones((3, 4), "float32")
    read(x, y, np.zeros(1, "int32"))
    np.testing.assert_array_equal(y, 1 + 2 * x)


def test_forms_of_code_that_are_not_here_are_refused_by_save(axpy, tmp_path):
    for form in ("ll", "c", "ptx"):
        with pytest.raises(KernelError, match=rf"get_source\(\) is the text\), got '{form}'"):
            axpy.save(tmp_path / f"axpy.{form}")
    with pytest.raises(KernelError, match=r"ends with one of c, got 'axpy\.ptx'"):
        axpy.imported_modules[0].save(tmp_path / "axpy.ptx")
    (tmp_path / "file").touch()
    with pytest.raises(KernelError, match="cannot write"):
        axpy.imported_modules[0].save(tmp_path / "file" / "axpy.c")
    with pytest.raises(KernelError, match="module must be the device code"):
        axpy.import_module(axpy)


def test_edited_code_of_the_same_kernel_is_not_imported(axpy, tmp_path):
    for text in ("void other(void) {}", axpy.get_source().replace("+", "-", 1)):
        (tmp_path / "axpy.c").write_text(text)
        with pytest.raises(KernelError, match="got 'other code, or code that was changed'"):
            axpy.import_module(DeviceFile(tmp_path / "axpy.c"))
    axpy.imported_modules[0].save(tmp_path / "axpy.c")
    axpy.import_module(DeviceFile(tmp_path / "axpy.c"))


def test_a_module_is_written_to_a_file_and_read_back(axpy, x, tmp_path):
    axpy.export_library(tmp_path / "axpy.atm", None)  # where TVM's scripts give a compiler
    name, kernel = axpy.name, axpy.kernel
    del axpy
    gc.collect()
    again = load_module(tmp_path / "axpy.atm")
    assert (again.name, again.kernel, again.target) == (name, kernel, C)
    y = np.zeros((3, 4), "float32")
    again(x, y, np.zeros(1, "int32"))
    np.testing.assert_array_equal(y, 2 * x)


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(axpy, tmp_path):
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "axpy.atm"
    axpy.export_library(path)
    before = path.read_bytes()
    path.chmod(0o640)
    text = (
        "import resource, sys, autotune\n"
        "from autotune.errors import KernelError\n"
        "module = autotune.load_module(sys.argv[1])\n"
        "module.artifact += bytes(range(256)) * 4\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
        "try: module.export_library(sys.argv[1])\n"
        "except KernelError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text, path], capture_output=True, text=True, timeout=60, check=False
    )
    assert "cannot write" in done.stdout, done.stderr
    assert path.read_bytes() == before
    axpy.export_library(path)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in path.parent.iterdir()] == ["axpy.atm"]


def test_a_file_that_is_no_module_is_refused(tmp_path):
    with pytest.raises(KernelError, match=r"be read, got .*missing: No such file or directory$"):
        load_module(tmp_path / "missing")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(KernelError, match="not a file of export_library"):
        load_module(tmp_path / "text")


def test_a_damaged_file_is_refused_or_loads_what_was_written(axpy, tmp_path):
    path, damaged = tmp_path / "whole", tmp_path / "damaged"
    axpy.export_library(path)
    whole = path.read_bytes()
    cut = [whole[:n] for n in range(0, len(whole), 97)]
    flipped = [
        whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]
        for at in range(0, len(whole), 11)
        for bit in (0x01, 0x80)
    ]
    for content in cut + flipped:
        damaged.write_bytes(content)
        with contextlib.suppress(AutotuneError):
            found = load_module(damaged)
            assert (found.artifact, found.kernel) == (axpy.artifact, axpy.kernel)


# ---- CUDA text on the emulator -----------------------------------------------------------------

EMULATED = Target("cuda -emulate")
REVERSE = """
extern "C" __global__ void reverse(const float *x, float *y) {
  __shared__ float tile[N];
  int i = blockIdx.x * N + threadIdx.x;
  tile[threadIdx.x] = x[i];
  BARRIER
  y[i] = tile[N - 1 - threadIdx.x];
}
"""


def reverse(barrier="__syncthreads();"):
    args = [arg("x", (4, 64)), arg("y", (4, 64), role="out")]
    defines = {"N": 64, "BARRIER": barrier}
    return SourceKernel("reverse", REVERSE, args, defines, grid=4, block=64).kernel("cuda")


def test_an_emulated_module_computes_on_host_arrays(tmp_path):
    module = built(reverse(), EMULATED, tmp_path)
    x = np.arange(256, dtype="float32").reshape(4, 64)
    y = np.zeros_like(x)
    module(x, y)
    np.testing.assert_array_equal(y, x[:, ::-1])
    assert module.device == cpu()
    assert "__global__" in module.get_source()


def test_a_race_in_an_emulated_kernel_is_reported(tmp_path):
    module = built(reverse(barrier=""), EMULATED, tmp_path)
    x = np.ones((4, 64), "float32")
    lines = r"read it at reverse.cu:\d+ .* wrote it at reverse.cu:\d+"
    with pytest.raises(DeviceError, match=rf"kernel 'reverse': race.*{lines}"):
        module(x, np.zeros_like(x))


def test_workspaces_and_several_calls_are_emulated(tmp_path):
    from autotune.kernel import call, workspace

    source = """
    extern "C" __global__ void part(const float *x, float *w) { atomicAdd(w, x[threadIdx.x]); }
    extern "C" __global__ void out(const float *w, float *y) { y[0] = 2 * w[0]; }
    """
    kernel = SourceKernel(
        "total",
        source,
        [arg("x", (32,)), arg("y", (1,), role="out")],
        calls=[call("part", ["x", "w"], 1, 32), call("out", ["w", "y"], 1, 1)],
        workspace=[workspace("w", (1,), zero=True)],
    ).kernel("cuda")
    module = built(kernel, EMULATED, tmp_path)
    y = np.zeros(1, "float32")
    for _ in range(2):
        module(np.ones(32, "float32"), y)
        assert y[0] == 64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"number": 0}, "number must be a whole number of at least 1, got 0"),
        ({"number": "3"}, "number must be a whole number of at least 1, got '3'"),
        ({"repeat": 0}, "repeat must be a whole number of at least 1, got 0"),
        ({"min_repeat_ms": -1}, "min_repeat_ms must be a number of at least 0, got -1"),
        ({"min_repeat_ms": float("nan")}, "min_repeat_ms must be a number of at least 0, got nan"),
        ({"cooldown_interval_ms": "4"}, "cooldown_interval_ms must be a number"),
        ({"repeats_to_cooldown": 0}, "repeats_to_cooldown must be a whole number"),
        ({"cache_flush_bytes": None}, "cache_flush_bytes must be a whole number"),
    ],
)
def test_a_time_evaluator_refuses_numbers_by_name_before_it_is_called(axpy, options, message):
    with pytest.raises(KernelError, match=f"time_evaluator: {message}"):
        axpy.time_evaluator("axpy", **options)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (None, "path must be a path, got None"),
        (3.5, "path must be a path, got 3.5"),
        ("missing/file", "cannot write missing/file: No such file"),
        ("/", "cannot write /: Is a directory"),
    ],
)
def test_export_refuses_a_path_by_name(axpy, path, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KernelError, match=f"axpy: export_library: {message}"):
        axpy.export_library(path)


def test_a_file_says_which_kernels_begin_early(tmp_path):
    source = 'extern "C" __global__ void f(float *y) {}'
    calls = [call("f", ["y"], 2, 32), call("f", ["y"], 1, 32, early=True)]
    kernel = SourceKernel("f", source, [arg("y", (4,), role="out")], calls=calls).kernel("cuda")
    path, target = tmp_path / "f.atm", Target("cuda -arch=sm_90")
    export.pack(path, kernel, target, b"cubin", ".cubin", {})
    assert export.unpack(path)[0] == kernel
    with zipfile.ZipFile(path) as archive:
        head = json.loads(archive.read("kernel.json"))
    for one in head["kernel"]["calls"]:
        del one["launch"]["early"]  # as older versions wrote it
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("kernel.json", json.dumps(head))
        archive.writestr("artifact", b"cubin")
    assert not any(one.launch.early for one in export.unpack(path)[0].calls)
