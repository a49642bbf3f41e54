"""Products of float32 by those of bfloat16: the pieces, where they stand, what is offered."""

import time
from dataclasses import replace
from itertools import product

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_bf16x3, gemm_cuda
from autotune.templates.products.gemm_shape import Gemm
from hypothesis import example, given
from hypothesis import strategies as st

from autotune import arg
from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
from tests.pace import is_within
from tests.templates.assembled import needs_nvcc, spilled
from tests.templates.emulated import arrays_of, in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
REST = Epilogue(bias=True, residual=True, affine=True, activation="gelu", alpha=0.5)
CHOICE = {"tile_n": 128, "chunk": 32, "stages": 3, "in_turn": 0, "split": 1, "band": 1}
PIECES = 3
# Shapes with edges everywhere, and how their choices differ from that above.
PRODUCTS = {
    "nn": (Gemm(70, 66, 70), {}),
    "tt-rest": (Gemm(131, 77, 97, "float32", 2, True, True, "a", REST), {"in_turn": 1}),
    "nt-wide": (Gemm(70, 200, 65, transpose_b=True), {"tile_n": 192}),
    "narrow": (Gemm(131, 83, 70), {"tile_n": 24}),
    "tn-two-parts": (
        Gemm(66, 140, 65, "float32", 2, True, False, "b"),
        {"tile_n": 256, "stages": 1, "chunk": 64},
    ),
}


def nearest(x):
    """Round float32 to bfloat16, of two that are equally near to the larger."""
    return ((x.view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32)


def pieces(x):
    """Return what the kernel makes of float32."""
    first = nearest(x)
    second = nearest(x - first)
    return first, second, x - first - second


def exact_floats():
    """Floats whose pieces add up to them."""
    near = st.floats(2.0**-109, 2.0**56, width=32, exclude_max=True)
    return st.one_of(st.just(0.0), near, near.map(lambda x: -x))


@given(exact_floats())
@example(float(np.float32(2.0**-109)))
@example(float(np.nextafter(np.float32(2.0**56), np.float32(0))))
@example(float(np.nextafter(np.float32(1), np.float32(0))))
def test_a_float_is_the_sum_of_three_bfloat16(number):
    x = np.array([number], np.float32)
    parts = pieces(x)
    assert not any(part.view(np.uint32) & 0xFFFF for part in parts)
    assert sum(part.astype(np.float64) for part in parts) == x


def packed(shape, choice, arrays, folder):
    """Return what the first kernel writes: the pieces of a and b, and the flags."""
    source = gemm_bf16x3.kernel(shape, {**CHOICE, **choice})
    rooms = [arg(one.name, one.shape, one.dtype, role="out") for one in source.workspace]
    only = replace(
        source,
        args=[*source.args[:2], *rooms],
        calls=source.calls[:1],
        workspace=[],
        reference=None,
    )
    kernel = only.kernel("cuda")
    made = [
        np.full(one.shape, 0x7FFF, "int32" if one.dtype == "int32" else "uint16") for one in rooms
    ]
    library = compile_emulated(kernel, folder / "pack.so", arch="sm_90", checked=False)
    EmulatedKernel(library, kernel).run([*arrays, *made], checked=False)
    return made


def in_tiles(matrix, tile, chunk):
    """Return the pieces of [across, k] as tile, chunk, piece, 8 along K, across, item."""
    across, k = (-(-size // by) for size, by in zip(matrix.shape, (tile, chunk), strict=True))
    whole = np.zeros((across * tile, k * chunk), np.float32)
    whole[: matrix.shape[0], : matrix.shape[1]] = matrix
    stacked = np.stack([(each.view(np.uint32) >> 16).astype(np.uint16) for each in pieces(whole)])
    apart = stacked.reshape(PIECES, across, tile, k, chunk // 8, 8)
    return apart.transpose(1, 3, 0, 4, 2, 5)


@pytest.mark.parametrize("name", PRODUCTS)
def test_operands_are_packed_as_they_stand_in_shared_memory(name, tmp_path):
    shape, change = PRODUCTS[name]
    choice = {**CHOICE, **change}
    a, b = arrays_of(gemm_bf16x3.kernel(shape, choice))[:2]
    packed_a, packed_b, flags = packed(shape, choice, [a, b], tmp_path)
    left = a.swapaxes(-1, -2) if shape.transpose_a else a
    right = b if shape.transpose_b else b.swapaxes(-1, -2)
    for matrix, made, tile in ((left, packed_a, 128), (right, packed_b, choice["tile_n"])):
        matrices = matrix.reshape(-1, *matrix.shape[-2:])
        wanted = [in_tiles(one, tile, choice["chunk"]).ravel() for one in matrices]
        np.testing.assert_array_equal(made, np.concatenate(wanted))
    assert not flags.any()


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("number", "flagged"),
    [
        *((x, True) for x in (np.inf, -np.inf, np.nan, 2.0**56, -3e38, 1e-40, 1.1e-36)),
        *((x, False) for x in (0.0, -7.2e16, 3.1e-33, 2.0**-120, -(2.0**-133))),
    ],
)
def test_a_float_that_has_no_pieces_flags_its_tile(number, flagged, tmp_path):
    a, b = np.ones((200, 70), np.float32), np.ones((70, 100), np.float32)
    a[150, 69] = number
    *_, flags = packed(Gemm(200, 100, 70), {}, [a, b], tmp_path)
    assert flags.tolist() == [0, 0, 0, 0, 0, int(flagged), 0, 0, 0]  # the second tile's last chunk


@pytest.mark.many_cases
@pytest.mark.parametrize("strange", [False, True], ids=["exact", "flagged"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_right_also_where_floats_have_no_pieces(name, strange, tmp_path):
    shape, change = PRODUCTS[name]
    source = gemm_bf16x3.kernel(shape, {**CHOICE, **change})
    arrays = arrays_of(source)
    if strange:
        arrays[0].flat[5], arrays[1].flat[7], arrays[1].flat[-1] = np.inf, 1e-42, np.nan
    got, wanted = in_the_emulator(source, tmp_path, arrays)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


SHAPES = [
    Gemm(512, 512, 512),
    Gemm(1024, 1024, 1024, epilogue=REST),
    Gemm(2048, 2048, 2048),
    Gemm(4096, 4096, 4096),
    Gemm(197, 3072, 768, "float32", 1, False, True),
    Gemm(300, 1001, 777, "float32", 12, True, False, "b", REST),
]


def valid(shape):
    """Return all choices that can run."""
    options = gemm_bf16x3.candidates(shape)
    every = (dict(zip(options, each, strict=True)) for each in product(*options.values()))
    return [choice for choice in every if gemm_bf16x3.violation(shape, choice, HOPPER) is None]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_has_choices_that_fit_a_block_and_its_default_is_one(shape):
    choices = valid(shape)
    assert gemm_bf16x3.default_choice(shape, HOPPER) in choices
    for choice in choices[:: len(choices) // 20 + 1]:
        kernel = gemm_bf16x3.kernel(shape, choice).kernel("cuda")
        assert launch_violation(kernel, HOPPER.limits) is None


@pytest.mark.many_cases
@needs_nvcc
@pytest.mark.parametrize(
    "change",
    [
        {"in_turn": 1, "split": 2}, {"tile_n": 192, "in_turn": 1}, {"tile_n": 256},
        {"tile_n": 40, "split": 2},
        {"chunk": 64, "stages": 2},
    ],
    ids=str,
)  # fmt: skip
def test_products_are_not_serialized_and_sums_stay_in_registers(change, tmp_path):
    kernel = gemm_bf16x3.kernel(SHAPES[1], {**CHOICE, **change}).kernel("cuda")
    # What follows the sums of 256 columns leaves no room: pairs are written from neighbours.
    assert spilled(kernel, tmp_path)[0] <= (96 if change.get("tile_n") == 256 else 16)


def entry(args, target, name="gemm.cuda"):
    """Return what the untuned template launches last."""
    task = create(name, args, target)
    return next(c.entry for c in task.instantiate(task.default()).calls if "pack" not in c.entry)


@pytest.mark.parametrize(
    ("args", "name"),
    [
        ((1024, 1024, 1024), "gemm_nn.cuda"),
        ((1000, 777, 513, "float32", 3, True, True, True, "relu"), "gemm.cuda"),
    ],
    ids=["square", "odd-batch"],
)
def test_large_products_of_float32_run_on_tensor_cores_unless_that_is_excluded(args, name):
    excluded = (*args, "float32", True) if name == "gemm_nn.cuda" else args
    assert entry(args, HOPPER, name) == "gemm_bf16x3"
    if name == "gemm.cuda":
        excluded = (*args, False, False, 1.0, "", True)
    assert entry(excluded, HOPPER, name) == "gemm_nn"


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "cuda -arch=sm_100", "cuda -emulate"])
def test_other_targets_keep_the_space_of_fma(target):
    space = create("gemm_nn.cuda", (1024, 1024, 1024), target).config_space
    assert list(space.space_map) == list(gemm_cuda.candidates(SHAPES[1]))


@pytest.mark.parametrize("args", [(128, 96, 64), (16, 4096, 4096), (267, 19, 289)], ids=str)
def test_products_that_would_not_gain_keep_fma(args):
    assert entry(args, HOPPER, "gemm_nn.cuda") == "gemm_nn"


@pytest.mark.parametrize(
    ("shape", "columns"),
    [(Gemm(1922, 263, 223), 40), (Gemm(3642, 36, 683), 40), (Gemm(1024, 1024, 1024), 64)],
    ids=str,
)
def test_tiles_are_as_narrow_as_fills_the_device(shape, columns):
    assert gemm_bf16x3.default_choice(shape, HOPPER)["tile_n"] == columns


def test_a_pair_of_floats_is_written_at_once():
    source = gemm_bf16x3.kernel(SHAPES[0], CHOICE)
    assert "st.global.v2.f32" in source.source


def test_a_configuration_of_fma_from_a_log_still_builds_its_kernel():
    shape = Gemm(1024, 1024, 1024)
    choice = gemm_cuda.default_choice(shape, HOPPER)
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    task = create("gemm_nn.cuda", (1024, 1024, 1024), HOPPER)
    source = task.instantiate(ConfigEntity(7, None, entities))
    assert source.text() == gemm_cuda.kernel(shape, choice).text()


def test_the_space_is_counted_in_a_fifth_of_a_second_and_what_it_draws_builds():
    task = create("gemm_nn.cuda", (2048, 2048, 2048), HOPPER)
    begun = time.process_time()
    space = create("gemm_nn.cuda", (2048, 2048, 2048), HOPPER).config_space
    assert len(space) == len(valid(Gemm(2048, 2048, 2048)))
    assert is_within(time.process_time() - begun, 0.2)
    for index in space.sample(20, np.random.default_rng(0)):
        kernel = task.instantiate(space.get(index)).kernel("cuda")
        assert launch_violation(kernel, HOPPER.limits) is None
