"""Products whose operands are loaded by TMA: right in the emulator, chosen where they win."""

import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import (
    gemm_half,
    gemm_int8,
    gemm_padded,
    gemm_tma,
    gemm_tma_tiling,
)
from autotune.templates.products.gemm_shape import Gemm

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.kernel import launch_violation
from autotune.target import Target
from tests.templates.assembled import needs_nvcc, spilled
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90")
REST = Epilogue(bias=True, residual=True, affine=True, activation="gelu", alpha=0.5)
BIAS = Epilogue(bias=True, activation="silu")
GELU = Epilogue(bias=True, activation="gelu")
FACTOR = Epilogue(alpha=0.125)
ADDED = Epilogue(residual=True, activation="relu")
BOTH = Epilogue(bias=True, residual=True, affine=True, activation="gelu")
SWAPPED, JOINED = gemm_tma.Form(0, 1, 1), gemm_tma.Form(0, 1, cluster_reduce=1)
CHOICE = {
    "wgmma": 2, "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 8, "chunk": 64, "stages": 2,
    "split": 1, "band": 1,
}  # fmt: skip
# Shapes with edges everywhere, and how their choices differ from that above.
PRODUCTS = {
    "nn": (Gemm(66, 72, 72, "float16"), {}),
    "nt": (Gemm(66, 72, 72, "float16", 1, False, True), {"stages": 3}),
    "tn": (Gemm(72, 80, 67, "float16", 2, True, False, "a", REST), {}),
    "epilogue-wide": (Gemm(72, 264, 64, "float16", epilogue=REST), {"frags_m": 2, "frags_n": 16}),
    "tt": (Gemm(136, 72, 72, "bfloat16", 1, True, True), {"warps_m": 8}),
    "two-fragments": (Gemm(72, 72, 136, "float16", 1, True, True), {"frags_m": 2, "frags_n": 16}),
    "wide": (Gemm(66, 72, 200, "float16"), {"frags_n": 32, "chunk": 128}),
    "even-columns": (Gemm(65, 58, 72, "float16", 2, False, True, "b", REST), {}),
    "odd-columns": (Gemm(65, 59, 72, "float16", 2, False, True, "b", REST), {}),
    "odd-columns-plain": (Gemm(65, 59, 72, "float16", 2, False, True), {"frags_m": 2}),
    "odd-columns-wide": (Gemm(131, 275, 71, "bfloat16"), {"frags_n": 24}),
    "odd-columns-long-chunks": (
        Gemm(131, 133, 199, "float16"),
        {"chunk": 128, "warps_m": 8, "frags_n": 16},
    ),
    "odd-columns-cooperative": (
        Gemm(200, 261, 135, "float16"),
        {"wgmma": 4, "stages": 3, "band": 4},
    ),
    "odd-columns-ping-pong": (
        Gemm(130, 197, 72, "float16", 3, True, False),
        {"wgmma": 6, "stages": 4, "frags_n": 16},
    ),
    "odd-columns-narrow": (Gemm(66, 143, 136, "float16", 1, False, True), {"frags_n": 9}),
    "odd-columns-of-two-strips": (Gemm(66, 171, 72, "bfloat16", 1, False, True), {"frags_n": 21}),
    "odd-columns-narrow-cooperative": (
        Gemm(200, 143, 72, "float16", 1, False, True),
        {"wgmma": 4, "stages": 3, "frags_n": 9},
    ),
    "cooperative": (Gemm(200, 264, 200, "float16"), {"wgmma": 4, "stages": 3, "band": 4}),
    "ping-pong": (
        Gemm(130, 136, 136, "bfloat16", 5, False, True, "b", REST),
        {"wgmma": 6, "stages": 4, "frags_n": 16},
    ),
    "cooperative-epilogue": (
        Gemm(136, 200, 136, "float16", 3, True, False, "", REST),
        {"wgmma": 4, "frags_n": 16, "stages": 3},
    ),
    "split": (Gemm(100, 71, 488, "float16", 2, False, True, "", REST), {"split": 3}),
    "split-wide": (
        Gemm(72, 136, 320, "bfloat16", 1, True),
        {"split": 2, "frags_n": 16, "frags_m": 2},
    ),
    "some-columns": (Gemm(66, 208, 72, "float16"), {"frags_n": 12}),
    "three-groups": (
        Gemm(200, 224, 72, "float16", 1, False, True),
        {"warps_m": 12, "frags_n": 9, "stages": 3},
    ),
    "groups-in-order": (
        Gemm(200, 136, 328, "float16"),
        {"warps_m": 8, "frags_n": 17, "stages": 3},
    ),
    "three-groups-in-order": (
        Gemm(200, 224, 264, "bfloat16", 1, False, True, "", BIAS),
        {"warps_m": 12, "frags_n": 15, "stages": 3},
    ),
    "cooperative-in-order": (
        Gemm(260, 264, 200, "float16"),
        {"wgmma": 4, "warps_m": 8, "frags_n": 16, "stages": 3},
    ),
    "epilogue-in-order": (
        Gemm(136, 136, 264, "float16", 2, False, True, "b", REST),
        {"warps_m": 8, "frags_n": 16, "stages": 3},
    ),
    "odd-columns-in-order": (
        Gemm(131, 197, 264, "float16"),
        {"warps_m": 8, "frags_n": 16, "stages": 3},
    ),
    "split-in-order": (
        Gemm(136, 72, 712, "float16", 2, False, True, "", REST),
        {"warps_m": 8, "frags_n": 16, "stages": 3, "split": 2},
    ),
    "swapped-in-order": (
        Gemm(200, 264, 264, "float16"),
        {"wgmma": SWAPPED.knob, "warps_m": 12, "frags_n": 15, "stages": 3},
    ),
    "swapped-cooperative-in-order": (
        Gemm(200, 264, 264, "float16", 1, False, True, "", BIAS),
        {"wgmma": SWAPPED.knob + 2, "warps_m": 8, "frags_n": 16, "stages": 3},
    ),
    "cooperative-some-columns": (
        Gemm(200, 264, 200, "float16"),
        {"wgmma": 4, "frags_n": 10, "stages": 3, "band": 4},
    ),
    "bias-first": (
        Gemm(70, 328, 136, "float16", 3, False, True, "", BIAS),
        {"wgmma": 6, "frags_n": 11, "stages": 3},
    ),
    "bias-split": (
        Gemm(70, 96, 264, "float16", 1, False, True, "", BIAS),
        {"frags_n": 6, "stages": 3, "split": 2},
    ),
    "residual-first": (
        Gemm(70, 328, 136, "float16", 2, False, True, "", ADDED),
        {"wgmma": 6, "frags_n": 11, "stages": 3},
    ),
    "residual-and-bias-first": (
        Gemm(70, 91, 136, "bfloat16", 1, False, True, "", BOTH),
        {"frags_n": 6, "frags_m": 2},
    ),
    "residual-split": (
        Gemm(70, 96, 264, "float16", 1, False, True, "", ADDED),
        {"frags_n": 6, "stages": 3, "split": 2},
    ),
    "swapped-residual": (
        Gemm(77, 264, 136, "bfloat16", 2, False, True, "", ADDED),
        {"wgmma": SWAPPED.knob, "frags_n": 10},
    ),
    "swapped-odd-residual": (
        Gemm(77, 91, 136, "float16", 1, False, True, "", ADDED),
        {"wgmma": SWAPPED.knob, "frags_n": 10},
    ),
    "swapped": (Gemm(66, 208, 72, "float16"), {"wgmma": SWAPPED.knob, "frags_n": 9}),
    "swapped-batch": (
        Gemm(200, 136, 72, "float16", 3, True, False, "b"),
        {"wgmma": SWAPPED.knob, "frags_m": 2, "frags_n": 10},
    ),
    "swapped-cooperative": (
        Gemm(200, 264, 200, "float16", 1, False, True),
        {"wgmma": SWAPPED.knob + 2, "frags_n": 6, "stages": 3},
    ),
    "swapped-ping-pong": (
        Gemm(130, 264, 136, "float16", 3),
        {"wgmma": SWAPPED.knob + 4, "frags_n": 7, "stages": 4},
    ),
    "swapped-bias": (
        Gemm(77, 264, 136, "bfloat16", 1, False, True, "", BIAS),
        {"wgmma": SWAPPED.knob, "frags_n": 10},
    ),
    "swapped-odd": (
        Gemm(77, 91, 136, "float16", 1, False, True, "", BIAS),
        {"wgmma": SWAPPED.knob, "frags_n": 10},
    ),
    "swapped-odd-plain": (
        Gemm(77, 91, 136, "float16", 1, False, True),
        {"wgmma": SWAPPED.knob, "frags_n": 10},
    ),
    "swapped-odd-narrow": (
        Gemm(57, 277, 264, "bfloat16"),
        {"wgmma": SWAPPED.knob, "warps_m": 8, "frags_n": 7, "stages": 3},
    ),
    "swapped-odd-two-fragments": (
        Gemm(150, 277, 264, "float16"),
        {"wgmma": SWAPPED.knob, "warps_m": 8, "frags_m": 2, "frags_n": 16, "stages": 3},
    ),
    "tf32": (Gemm(66, 71, 76, "tf32", 1, False, True, "", REST), {"chunk": 32}),
    "tf32-walk": (
        Gemm(200, 264, 136, "tf32", 2, False, True, "b", BIAS),
        {"wgmma": 6, "frags_n": 11, "chunk": 32, "stages": 4},
    ),
    "tf32-split": (Gemm(72, 136, 320, "tf32", 1, False, True), {"chunk": 64, "split": 2}),
    "tf32-in-order": (
        Gemm(136, 137, 264, "tf32", 1, False, True),
        {"warps_m": 8, "frags_n": 16, "chunk": 32, "stages": 3},
    ),
    "tf32-strips-ping-pong": (
        Gemm(130, 197, 72, "tf32", 3, False, True, "", BIAS),
        {"wgmma": 6, "stages": 4, "frags_n": 9, "chunk": 32},
    ),
    "tf32-strips-cooperative": (
        Gemm(200, 90, 72, "tf32", 2, False, True),
        {"wgmma": 4, "warps_m": 8, "stages": 3, "frags_n": 6, "chunk": 32},
    ),
    "tf32-left-across": (
        Gemm(68, 71, 120, "tf32", 1, True, True, "", REST),
        {"chunk": 64, "frags_m": 2},
    ),
    "tf32-swapped": (Gemm(67, 72, 76, "tf32"), {"wgmma": SWAPPED.knob, "chunk": 32}),
    "tf32-swapped-in-order": (
        Gemm(139, 200, 264, "tf32", 1, False, False, "", BIAS),
        {"wgmma": SWAPPED.knob, "warps_m": 8, "frags_n": 16, "chunk": 32, "stages": 4},
    ),
    "tf32-swapped-ping-pong": (
        Gemm(139, 200, 264, "tf32", 2, False, False, "b", REST),
        {"wgmma": SWAPPED.knob + 4, "frags_n": 4, "chunk": 32, "stages": 3},
    ),
    "tf32-swapped-split": (
        Gemm(139, 200, 264, "tf32", 1, False, False, "", REST),
        {"wgmma": SWAPPED.knob, "chunk": 32, "split": 2},
    ),
    "factor": (
        Gemm(200, 264, 200, "float16", 2, False, True, "", FACTOR),
        {"wgmma": 6, "frags_n": 16, "stages": 3},
    ),
    "swapped-factor": (
        Gemm(77, 264, 136, "float16", 1, False, True, "", FACTOR),
        {"wgmma": SWAPPED.knob, "frags_n": 10},
    ),
    "odd-on-copies": (Gemm(65, 77, 71, "bfloat16", 1, False, False, "", REST), {}),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_read_their_operands_where_boxes_put_them(name, tmp_path, monkeypatch):
    """The emulator reads shared memory where the descriptors of operands say that they are."""
    monkeypatch.setattr(
        gemm_tma_tiling, "MULTIPROCESSORS", 2
    )  # so that few tiles are several steps
    shape, change = PRODUCTS[name]
    family = gemm_padded.Padded(gemm_tma) if gemm_padded.is_needed(shape) else gemm_tma
    source = family.kernel(shape, {**CHOICE, **change})
    kernel, arrays = source.kernel("cuda"), arrays_of(source)
    # Checks take as long as all else.
    library = compile_emulated(
        kernel, tmp_path / "kernel.so", arch="sm_90", checked=False, optimized=shape.flop > 3e6
    )
    EmulatedKernel(library, kernel).run(arrays, order=7, checked=False)
    wanted = source.reference(*(x.astype(np.float64) for x in arrays[:-1]))
    np.testing.assert_allclose(arrays[-1].astype(np.float64), wanted, rtol=2e-2, atol=2e-2)


# The same of 8-bit integers, two of which stand in a place.
INTEGERS = {
    "whole": (Gemm(64, 64, 128, "int8", 1, False, True), {}),
    "edges": (Gemm(66, 72, 144, "int8", 1, False, True), {"stages": 4}),
    "odd-columns": (Gemm(66, 71, 144, "int8", 2, False, True, "b"), {"frags_n": 6}),
    "cooperative": (
        Gemm(200, 264, 272, "int8", 1, False, True),
        {"wgmma": 4, "stages": 3, "band": 4, "frags_n": 10},
    ),
    "ping-pong-long": (
        Gemm(130, 136, 272, "int8", 3, False, True, "a"),
        {"wgmma": 6, "stages": 4, "frags_n": 16},
    ),
    "split": (
        Gemm(72, 136, 640, "int8", 1, False, True),
        {"split": 2, "frags_m": 2, "frags_n": 16},
    ),
    "in-order": (
        Gemm(200, 136, 656, "int8", 1, False, True),
        {"warps_m": 8, "frags_n": 16, "stages": 5},
    ),
    "narrow": (Gemm(65, 24, 480, "int8", 1, False, True), {"frags_n": 3, "chunk": 128}),
    # Left operands across K are sorted in registers.
    "b-across": (
        Gemm(67, 208, 144, "int8"),
        {"wgmma": SWAPPED.knob, "warps_m": 8, "frags_n": 10, "stages": 3},
    ),
    "b-across-ping-pong": (
        Gemm(35, 272, 272, "int8", 3, shared="b"),
        {"wgmma": SWAPPED.knob + 4, "frags_m": 2, "frags_n": 4, "stages": 4},
    ),
    "b-across-split": (
        Gemm(68, 144, 640, "int8"),
        {"wgmma": SWAPPED.knob, "frags_m": 2, "frags_n": 8, "split": 2},
    ),
    "a-across": (
        Gemm(208, 72, 144, "int8", 2, True, True),
        {"warps_m": 8, "frags_n": 10, "stages": 3},
    ),
    "a-across-long": (
        Gemm(144, 71, 720, "int8", 1, True, True),
        {"frags_m": 2, "frags_n": 6, "chunk": 128, "stages": 3},
    ),
    "a-across-cooperative": (
        Gemm(272, 264, 272, "int8", 1, True, True),
        {"wgmma": 4, "warps_m": 8, "frags_n": 10, "stages": 3},
    ),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", INTEGERS)
def test_products_of_integers_are_exact(name, tmp_path, monkeypatch):
    monkeypatch.setattr(gemm_tma_tiling, "MULTIPROCESSORS", 2)
    shape, change = INTEGERS[name]
    source = gemm_tma.kernel(shape, {**CHOICE, **change})
    kernel, (a, b, c) = source.kernel("cuda"), arrays_of(source)
    rng = np.random.default_rng(0)
    a[:], b[:] = rng.integers(-128, 128, a.shape), rng.integers(-128, 128, b.shape)
    library = compile_emulated(kernel, tmp_path / "kernel.so", arch="sm_90", checked=False)
    EmulatedKernel(library, kernel).run([a, b, c], order=7, checked=False)
    np.testing.assert_array_equal(c, source.reference(a, b))


@pytest.mark.parametrize(
    ("shape", "change", "copied"),
    [
        (Gemm(20, 144, 38, "int8", 2), {"wgmma": SWAPPED.knob, "frags_m": 2}, "a"),
        (Gemm(144, 24, 52, "int8", 2, True), {"frags_m": 2, "frags_n": 4}, "b"),
        (Gemm(144, 24, 48, "int8", 1, True, True), {"frags_m": 2, "frags_n": 4}, ""),
    ],
    ids=["nn", "tn", "tt"],
)
def test_only_what_is_no_left_operand_across_the_sum_is_copied(shape, change, copied, tmp_path):
    source = gemm_int8.AlongK(gemm_half).kernel(shape, {**CHOICE, **change})
    kernel, (a, b, c) = source.kernel("cuda"), arrays_of(source)
    assert [one.name[0] for one in source.workspace] == [*copied]
    rng = np.random.default_rng(0)
    a[:], b[:] = rng.integers(-128, 128, a.shape), rng.integers(-128, 128, b.shape)
    library = compile_emulated(kernel, tmp_path / "kernel.so", arch="sm_90", checked=False)
    EmulatedKernel(library, kernel).run([a, b, c], order=7, checked=False)
    np.testing.assert_array_equal(c, source.reference(a, b))


SHAPES = [
    Gemm(512, 512, 64, "float16", 96, False, True),
    Gemm(512, 512, 8192, "float16"),
    Gemm(2048, 2048, 2048, "bfloat16", epilogue=REST),
    Gemm(1000, 1048, 1016, "bfloat16", 3, True, False, "b"),
    Gemm(512, 4096, 4096, "int8", 1, False, True),
    Gemm(1024, 2048, 1024, "tf32", epilogue=GELU),
    Gemm(1, 8, 8, "float16"),
    Gemm(1, 8, 16, "int8", 1, False, True),
]


def drawn(shape, count):
    """Draw valid choices of knobs, each once."""
    rng, options = np.random.default_rng(0), gemm_tma.candidates(shape)
    found = []
    for _ in range(5000):
        choice = {name: int(rng.choice(values)) for name, values in options.items()}
        if gemm_tma.violation(shape, choice, HOPPER) is None and choice not in found:
            found.append(choice)
        if len(found) == count:
            break
    return found


@pytest.mark.many_cases
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_has_choices_that_fit_a_block_and_its_default_is_one(shape):
    choices = [gemm_tma.default_choice(shape, HOPPER), *drawn(shape, 10)]
    for choice in choices:
        assert gemm_tma.violation(shape, choice, HOPPER) is None
        kernel = gemm_tma.kernel(shape, choice).kernel("cuda")
        assert launch_violation(kernel, HOPPER.limits) is None


@pytest.mark.many_cases
@needs_nvcc
@pytest.mark.parametrize(
    ("shape", "chosen"),
    [
        *((shape, None) for shape in SHAPES[:6]),
        # Sums that begin with a bias, of a left operand from registers.
        (
            Gemm(2016, 992, 3264, "tf32", 1, True, True, "", BIAS),
            {**CHOICE, "warps_m": 8, "frags_n": 16, "chunk": 32, "stages": 6, "band": 8},
        ),
        (
            Gemm(1520, 2224, 208, "int8"),
            {**CHOICE, "wgmma": SWAPPED.knob + 4, "frags_m": 2, "frags_n": 14, "stages": 6},
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, Gemm) else "",
)
def test_products_are_not_serialized_and_sums_stay_in_registers(shape, chosen, tmp_path):
    for choice in [chosen] if chosen else drawn(shape, 2):
        kernel = gemm_tma.kernel(shape, choice).kernel("cuda")
        assert not any(spilled(kernel, tmp_path)), choice
