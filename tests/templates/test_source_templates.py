"""The source templates compute what their references compute, for drawn configurations."""

import ctypes
import itertools
import shutil
import subprocess

import autotune.templates
import ml_dtypes
import numpy as np
import pytest
from autotune.templates import common
from autotune.templates.convolutions import conv2d_cuda
from autotune.templates.convolutions.conv2d_shape import Conv2d
from autotune.templates.products import gemm_cuda
from autotune.templates.products.gemm_shape import Gemm

import autotune
from autotune.emulator import run_emulated
from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create
from tests.templates.assembled import needs_nvcc, spilled

# Odd extents, so that every tile has a tail: name, arguments, how many configurations to run.
SMALL = [
    ("conv2d_nchw", (2, 5, 7, 6, 5, 3, 3, (1, 1), (1, 1), True, True), 4),
    ("conv2d_nchw", (1, 9, 8, 5, 3, 5, 3, (2, 2), (2, 1)), 3),
    ("conv2d_nchw", (1, 7, 6, 3, 6, 1, 1, 2, 0, True), 3),
    ("conv2d_nchw", (2, 5, 6, 4, 8, 3, 3, 1, 1, True, True, True, True), 2),
    ("conv2d_nchw", (2, 5, 6, 4, 8, 3, 3, 1, 1, True, True, True, True, "kept"), 2),
    ("conv2d_nchw", (1, 5, 5, 3, 8, 1, 1, 1, 0, False, False, True, False), 2),
    ("gemm_nn", (13, 20, 17), 3),
    ("gemm_nn", (1, 36, 32), 2),
    ("gemm_nn", (9, 7, 12), 2),
    ("softmax", (5, 77), 2),
    ("softmax", (3, 260), 3),
]
LARGE = [
    ("conv2d_nchw", (1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1), True, True)),
    ("conv2d_nchw", (1, 224, 224, 64, 3, 7, 7, (2, 2), (3, 3))),
    ("gemm_nn", (1024, 1024, 1024)),
    ("gemm_nn", (1024, 1024, 1024, "float16")),
    ("gemm_nn", (1024, 1020, 1024, "float16")),
    ("softmax", (4096, 4096)),
]


def given(args, kind):
    """Return arguments that end with what only the last parameter of a template means."""
    if args[-1] != "kept":
        return args
    return (*args[:-1], True) if kind == "cpu" else (*args[:-1], 1, 1, "none", True)


def drawn(task, count, fits=lambda kernel: True):
    """Draw configurations until `count` of them fit."""
    space, rng = task.config_space, np.random.default_rng(0)
    kernels = (task.instantiate(space.get(i)) for i in space.sample(400, rng))
    fitting = (k for k in kernels if fits(k.kernel(task.target.language)))
    return list(itertools.islice(fitting, count))


def arrays_of(source):
    rng = np.random.default_rng(1)
    return [
        rng.standard_normal(a.shape).astype(np.float32)
        if a.role == "in"
        else np.full(a.shape, np.nan, np.float32)
        for a in source.args
    ]


def check(source, arrays):
    made = [x for x, each in zip(arrays, source.args, strict=True) if each.role == "out"]
    wanted = source.reference(*arrays[: -len(made)])
    for got, want in zip(made, wanted if isinstance(wanted, tuple) else [wanted], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.many_cases
@pytest.mark.parametrize(("name", "args", "count"), SMALL)
def test_c_kernels_match_their_reference(name, args, count, tmp_path):
    compiler = shutil.which("cc")
    assert compiler, "these tests need a C compiler"
    task = create(f"{name}.cpu", given(args, "cpu"), "llvm")
    for number, source in enumerate(drawn(task, count + 1)):
        kernel, library = source.kernel("c"), tmp_path / f"k{number}.so"
        library.with_suffix(".c").write_text(kernel.source)
        flags = ["-O1", "-fopenmp", "-Wall", "-Werror", "-Wno-unused-function", "-shared", "-fPIC"]
        subprocess.run(
            [compiler, *flags, library.with_suffix(".c"), "-o", library, *kernel.flags], check=True
        )
        arrays = arrays_of(source)
        by_name = {a.name: array for a, array in zip(source.args, arrays, strict=True)}
        by_name |= {w.name: np.full(w.shape, np.nan, w.dtype) for w in source.workspace}
        for one in kernel.calls:
            pointers = [by_name[n].ctypes.data_as(ctypes.c_void_p) for n in one.args]
            getattr(ctypes.CDLL(str(library)), one.entry)(*pointers)
        check(source, arrays)


@pytest.mark.many_cases
@pytest.mark.parametrize(("name", "args", "count"), SMALL)
def test_cuda_kernels_match_their_reference_in_the_emulator(name, args, count):
    def small(kernel):
        return all(c.launch.threads <= 256 for c in kernel.calls)

    task = create(f"{name}.cuda", given(args, "cuda"), "cuda -emulate")
    for source in drawn(task, count, small):
        arrays = arrays_of(source)
        run_emulated(source.kernel("cuda"), arrays, orders=(0,))
        check(source, arrays)


def test_a_convolution_in_several_straight_parts_matches_its_reference():
    shape = Conv2d(
        1, 5, 6, 16, 20, 3, 3, (1, 1), (1, 1), True, False, True, True, kept=True
    )  # fmt: skip
    knobs = {"channels": 8, "groups": 2, "pixels": 4, "columns": 2, "rows": 5, "slices": 1}
    for vec, straight in ((1, 1), (2, 2), (4, 4)):
        choice = {
            **knobs,
            "split": 2,
            "step": 8,
            "stages": 2 + vec // 2,
            "taps": vec,
            "cluster": 0,
        }
        assert conv2d_cuda.ConvTiling(shape, choice).straight == straight
        source = conv2d_cuda.kernel(shape, choice)
        arrays = arrays_of(source)
        run_emulated(source.kernel("cuda"), arrays, orders=(0,))
        check(source, arrays)


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("stages", [1, 3])
def test_a_product_in_several_straight_parts_matches_its_reference(transposed, stages):
    shape = Gemm(34, 40, 70, "float32")
    choice = {"rows": 16, "cols": 8, "threads_m": 2, "threads_n": 4, "slices": 2, "split": 1}
    choice |= {"step": 16, "stages": stages, "cluster": 0, "transposed": transposed}
    assert gemm_cuda.GemmTiling(shape, choice).straight == 8
    source = gemm_cuda.kernel(shape, choice)
    arrays = arrays_of(source)
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    check(source, arrays)


@pytest.mark.many_cases
@pytest.mark.parametrize("orders", [(0,), (1, 2)])
@pytest.mark.parametrize(
    ("rows", "cols", "step", "stages", "transposed", "turned"),
    [
        # Operands are read a step ahead, across chunks,
        (16, 8, 8, 3, 1, False),
        (12, 8, 4, 2, 1, True),
        (10, 4, 16, 4, 1, False),
        # or a row of four steps at a time.
        (16, 8, 8, 3, 0, True),
        (12, 4, 16, 4, 0, False),
    ],
)
def test_products_that_read_ahead_match_their_reference(
    rows, cols, step, stages, transposed, turned, orders
):
    shape = Gemm(67, 42, 70, "float32", transpose_a=turned and transposed > 0, transpose_b=turned)
    choice = {"rows": rows, "cols": cols, "threads_m": 4, "threads_n": 8, "slices": 2, "split": 1}
    choice |= {"step": step, "stages": stages, "cluster": 0, "transposed": transposed}
    source = gemm_cuda.kernel(shape, choice)
    arrays = arrays_of(source)
    run_emulated(source.kernel("cuda"), arrays, orders=orders)
    check(source, arrays)


@pytest.mark.parametrize("limit", [1, 64, 512, 10**6])
def test_what_is_written_out_in_a_row_divides_and_is_bounded(limit):
    for steps, least, size in ((16, 1, 9), (16, 4, 9), (3, 1, 100), (12, 2, 30)):
        count = common.straight(steps, least, size, limit)
        assert steps % count == 0
        assert count % least == 0
        assert count == least or count * size <= limit


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("args", "dtype"),
    [
        ((20, 36, 40, "float16"), np.float16),
        ((33, 66, 50, "bfloat16"), ml_dtypes.bfloat16),
        ((20, 37, 41, "float16"), np.float16),
        ((16, 24, 256, "float16"), np.float16),
    ],
)
def test_products_of_16_bit_floats_match_their_reference_in_the_emulator(args, dtype):
    def small(kernel):
        products = [call for call in kernel.calls if call.entry.startswith("gemm")]
        split = len(products) > 1
        return products[0].launch.threads <= 128 and split == (args[2] == 256)

    for source in drawn(create("gemm_nn.cuda", args, "cuda -emulate"), 2, small):
        a, b, c = (np.zeros(x.shape, dtype) for x in source.args)
        rng = np.random.default_rng(1)
        a[:], b[:] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
        run_emulated(source.kernel("cuda"), [a, b, c], orders=(0,))
        wanted = source.reference(a, b).astype(np.float32)
        np.testing.assert_allclose(c.astype(np.float32), wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(("name", "args"), LARGE)
def test_every_valid_configuration_fits_the_device(name, args):
    task = create(f"{name}.cuda", args, "cuda -arch=sm_90")
    limits = Target("cuda -arch=sm_90").limits
    sources = drawn(task, 50)
    assert sources
    assert all(launch_violation(s.kernel("cuda"), limits) is None for s in sources)


@pytest.mark.many_cases
@needs_nvcc
@pytest.mark.parametrize(("name", "args"), LARGE)
def test_cuda_text_compiles_for_hopper(name, args, tmp_path):
    def clustered(kernel):
        return name == "softmax" or len(args) == 4 or "#define CLUSTER 1" in kernel.source

    for source in drawn(create(f"{name}.cuda", args, "cuda -arch=sm_90"), 1, clustered):
        assert spilled(source.kernel("cuda"), tmp_path)


@pytest.mark.parametrize("target", ["cuda -arch=sm_90", "cuda -arch=sm_75"])
@pytest.mark.parametrize(("name", "args"), LARGE)
def test_untuned_cuda_configuration_is_valid(name, args, target):
    from autotune.templates import source

    with Target(target) as used:
        kernel = getattr(source, {"softmax": "softmax_rows"}.get(name, name) + "_cuda")(*args)
    assert launch_violation(kernel.kernel("cuda"), used.limits) is None


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("conv2d_nchw", (1, 4, 4, 8, 8, 7, 7), "7x7 filter does not fit into the 4x4 image"),
        ("conv2d_nchw", (1, 4, 4, 8, 0, 3, 3), "must be at least 1"),
        ("conv2d_nchw", (1, 4, 4, 8, 8, 3, 3, (1, 1, 1)), r"pair \(y, x\)"),
        ("conv2d_nchw", (2**14, 512, 512, 8, 8, 3, 3, 1, 1), "kernels index up to"),
        ("gemm_nn", (0, 4, 4), "must be at least 1"),
        ("gemm_nn", (4, 4, 4, "int8"), "dtype must be"),
        ("softmax", (4, 0), "must be at least 1"),
    ],
)
def test_a_shape_that_cannot_be_is_an_error_that_says_so(name, args, message):
    for target, kind in (("llvm", "cpu"), ("cuda", "cuda")):
        with pytest.raises(TemplateError, match=message):
            create(f"{name}.{kind}", args, target)


def test_kernel_texts_have_names_of_their_own():
    names = [path.name for path in common.KERNELS.rglob("*.*")]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("away", [-np.inf, -1e9, -90.0])
def test_softmax_gives_elements_that_are_masked_nothing_at_all(away):
    task = create("softmax.cpu", (2, 40), "llvm")
    data, out = np.zeros((2, 40), np.float32), np.full((2, 40), np.nan, np.float32)
    data[1, 3:] = away
    for config in (task.config_space.get(i) for i in range(len(task.config_space))):
        autotune.build(task.instantiate(config), target="llvm")(data, out)
        np.testing.assert_array_equal(out[1, 3:], 0)
        np.testing.assert_allclose(out[1, :3], 1 / 3, rtol=1e-6)


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FC00001, 0xFFC00003, 0x7FFFFFFF])
def test_softmax_of_a_row_with_any_nan_is_nan(bits):
    task = create("softmax.cpu", (2, 40), "llvm")
    data, out = np.zeros((2, 40), np.float32), np.zeros((2, 40), np.float32)
    data.view(np.uint32)[0, 7] = bits
    for config in (task.config_space.get(i) for i in range(len(task.config_space))):
        autotune.build(task.instantiate(config), target="llvm")(data, out)
        assert np.isnan(out[0]).all()
        np.testing.assert_allclose(out[1], 1 / 40, rtol=1e-6)
