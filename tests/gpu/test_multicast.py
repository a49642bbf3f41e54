"""Blocks of a cluster that share copies end by themselves: right when launched back to back.

None waits for the others at its end, so what is under way to a block that has ended would be a
launch failure, or a wrong sum of the launch that has its place.
"""

import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_tma
from autotune.templates.products.gemm_shape import Gemm
from autotune.templates.products.gemm_tma_form import FORMS

import autotune
from autotune.runtime import cuda
from autotune.tvm import nd

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("hopper")]

LAUNCHES = 500
STAGES = 3
# Chunks of 64 elements of a sum: fewer than slots, as many, and more.
CHUNKS = (STAGES - 1, STAGES, 2 * STAGES - 1)
# Of two groups of warps, which take the last chunks in order where there are as many as slots.
CHOICE = {
    "warps_m": 8, "warps_n": 1, "frags_m": 1, "frags_n": 16, "chunk": 64, "stages": STAGES,
    "split": 1, "band": 8,
}  # fmt: skip


def drawn(shape):
    """Return operands of small integers, whose sums are exact."""
    rng = np.random.default_rng(0)
    dtype = np.dtype(shape.dtype)
    return [rng.integers(-2, 3, a.shape).astype(dtype) for a in shape.arguments()[:-1]]


def assert_right_every_time(shape, choice):
    """Launch a choice many times in a row: the last results are exact."""
    function = autotune.build(gemm_tma.kernel(shape, choice), target="cuda")
    inputs = drawn(shape)
    arrays = [nd.array(x, cuda(0)) for x in inputs]
    result = function.kernel.args[-1]
    out = nd.array(np.full(result.shape, -1, result.dtype), cuda(0))
    for _ in range(LAUNCHES):
        function(*arrays, out)
    wanted = shape.reference()(*(x.astype(np.float64) for x in inputs))
    np.testing.assert_array_equal(out.numpy().astype(np.float64), wanted)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("form", [f for f in FORMS if f.cluster_m * f.cluster_n > 1], ids=str)
def test_blocks_that_share_copies_of_floats_end_by_themselves(form, chunks):
    # Blocks that walk need more tiles than there are multiprocessors.
    rows, split = 2560 if form.persistent else 1000, 1 + form.cluster_reduce
    shape = Gemm(rows, 1024, chunks * 64 * split, "float16", 1, False, not form.swapped)
    warps = 4 if form.schedule > 1 else CHOICE["warps_m"]
    assert_right_every_time(
        shape, {**CHOICE, "wgmma": form.knob, "warps_m": warps, "split": split}
    )


@pytest.mark.parametrize("width", [8, 12, 20])
@pytest.mark.parametrize("form", [f for f in FORMS if f.cluster_m * f.cluster_n > 2], ids=str)
def test_blocks_of_large_clusters_load_panels_in_turn(form, width):
    """Both operands are MN-major, and a tile has fewer panels of them than a cluster blocks."""
    split = 1 + form.cluster_reduce
    shape = Gemm(1000, 1048, 5 * 64 * split, "bfloat16", 1, True, False)
    knobs = {"wgmma": form.knob, "warps_m": 4, "frags_n": width, "split": split}
    assert_right_every_time(shape, {**CHOICE, **knobs})


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("form", [f for f in FORMS if f.cluster_m > 1 < f.cluster_n], ids=str)
def test_blocks_beyond_the_result_do_not_get_ahead_of_others(form, turned):
    """Those in a corner of a cluster load nothing, and no residual: nothing keeps them back."""
    split = 1 + form.cluster_reduce
    shape = Gemm(118, 264, 568 * split, "float16", 1, False, turned, "", Epilogue(residual=True))
    knobs = {"wgmma": form.knob, "warps_m": 4, "frags_n": 8 if split > 1 else 7, "split": split}
    assert_right_every_time(shape, {**CHOICE, **knobs})


@pytest.mark.parametrize("split", [1, 2])
@pytest.mark.parametrize("chunks", CHUNKS)
def test_blocks_that_share_copies_of_integers_end_by_themselves(chunks, split):
    shape = Gemm(512, 1024, chunks * 128 * split, "int8", 1, False, True)
    assert_right_every_time(shape, {**CHOICE, "wgmma": 3, "split": split})


@pytest.mark.parametrize("split", [2, 4])
@pytest.mark.parametrize("chunks", CHUNKS)
def test_blocks_that_join_their_ranges_end_by_themselves(chunks, split):
    form = next(form for form in FORMS if form.cluster_reduce)
    shape = Gemm(328, 520, chunks * 64 * split, "float16", 1, False, True)
    assert_right_every_time(shape, {**CHOICE, "wgmma": form.knob, "split": split})


@pytest.mark.parametrize("chunks", CHUNKS)
def test_blocks_that_share_copies_of_a_range_end_by_themselves(chunks):
    shape = Gemm(328, 520, chunks * 128, "float16", 1, False, True)
    assert_right_every_time(shape, {**CHOICE, "wgmma": 3, "split": 2})
