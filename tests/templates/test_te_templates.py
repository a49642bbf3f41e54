"""The te templates compute what numpy computes, for drawn configurations: C and emulated CUDA."""

import ctypes
import shutil
import subprocess

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest

from autotune.codegen import kernel_of_schedule
from autotune.emulator import run_emulated
from autotune.target import Target
from autotune.task import FallbackConfigEntity, create
from autotune.topi import testing

SMALL = {
    "conv2d_nchw": (
        (2, 7, 6, 6, 4, 3, 3, 1, 1),
        lambda x, w: testing.conv2d_nchw_python(x, w, 1, 1),
    ),
    "depthwise_conv2d_nchw": (
        (1, 8, 6, 4, 2, 3, 3, 2, 1),
        lambda x, w: testing.depthwise_conv2d_python_nchw(x, w, 2, 1),
    ),
    "gemm": ((12, 16, 20), np.matmul),
    "dense": ((6, 10, 8), testing.dense),
    "softmax": ((5, 40), testing.softmax_python),
}


def drawn(name, target, count, most_threads=256):
    """Draw configurations whose blocks are small enough to emulate."""
    task = create(name, SMALL[name.split("/")[1].split(".")[0]][0], target)
    space, found = task.config_space, []
    for index in space.sample(200, np.random.default_rng(0)):
        schedule, args = task.instantiate(space.get(index))
        kernel = kernel_of_schedule(schedule, args, Target(target), "f")
        if all(c.launch.threads <= most_threads for c in kernel.calls):
            found.append(kernel)
        if len(found) == count:
            break
    return found


def arrays_of(kernel):
    rng = np.random.default_rng(1)
    return [rng.standard_normal(a.shape).astype(np.float32) for a in kernel.args]


def check(name, arrays):
    np.testing.assert_allclose(arrays[-1], SMALL[name][1](*arrays[:-1]), rtol=1e-4, atol=1e-4)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", SMALL)
def test_c_code_of_drawn_configurations_is_right(name, tmp_path):
    for number, kernel in enumerate(drawn(f"te/{name}.cpu", "llvm", 5)):
        library = tmp_path / f"k{number}.so"
        library.with_suffix(".c").write_text(kernel.source)
        command = [
            shutil.which("cc") or "cc",
            "-O1",
            "-fopenmp",
            "-shared",
            "-fPIC",
            *kernel.flags,
        ]
        subprocess.run([*command, library.with_suffix(".c"), "-o", library, "-lm"], check=True)
        arrays = arrays_of(kernel)
        by_name = {a.name: array for a, array in zip(kernel.args, arrays, strict=True)}
        for space in kernel.workspace:
            by_name[space.name] = np.empty(space.shape, space.dtype)
        for one in kernel.calls:
            pointers = [by_name[n].ctypes.data_as(ctypes.c_void_p) for n in one.args]
            getattr(ctypes.CDLL(str(library)), one.entry)(*pointers)
        check(name, arrays)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", SMALL)
def test_emulated_cuda_code_of_drawn_configurations_is_right(name):
    for kernel in drawn(f"te/{name}.cuda", "cuda -emulate", 4):
        arrays = arrays_of(kernel)
        run_emulated(kernel, arrays, orders=(0, 1))
        check(name, arrays)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", SMALL)
def test_untuned_templates_are_right_and_tiled(name):
    for kind, target in (("cpu", "llvm"), ("cuda", "cuda -emulate")):
        task = create(f"te/{name}.{kind}", SMALL[name][0], target)
        config = FallbackConfigEntity()
        schedule, args = task.instantiate(config)
        kernel = kernel_of_schedule(schedule, args, Target(target), "f")
        entities = [config[knob] for knob in task.config_space.names]
        splits = [e.size for e in entities if hasattr(e, "size")]
        assert not splits or any(max(size[1:]) > 1 for size in splits)
        if kind == "cuda":
            arrays = arrays_of(kernel)
            run_emulated(kernel, arrays, orders=(0,))
            check(name, arrays)


@pytest.mark.parametrize("name", SMALL)
def test_operations_are_counted(name):
    assert create(f"te/{name}.cpu", SMALL[name][0], "llvm").flop > 0


def test_what_is_unrolled_stays_short_enough_to_compile():
    task = create("te/gemm.cpu", (1024, 1024, 1024), "llvm")
    space = task.config_space
    configs = [space.get(i) for i in space.sample(200, np.random.default_rng(0))]
    unrolled = [task.instantiate(c) for c in configs if c["unroll"].val]
    texts = [kernel_of_schedule(*each, Target("llvm"), "f").source for each in unrolled]
    assert len(texts) > 50
    assert max(map(len, texts)) < 50_000
