"""Arrays in tiles: a layout only ever permutes, so it can be undone to the bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import KernelError
from autotune.kernel import Argument, Kernel, KernelCall
from autotune.kernel.layout import (
    TiledArgument,
    TiledLayout,
    laid_out,
    natural_args,
    natural_kernel,
    with_layouts,
)


@st.composite
def layouts(draw):
    """Draw a layout: dimensions of some parts each, in any order."""
    dims = draw(st.lists(st.lists(st.integers(1, 4), max_size=3), min_size=1, max_size=4))
    parts = [(i, n) for i, extents in enumerate(dims) for n in extents]
    shape = tuple(int(np.prod(extents, dtype=int)) for extents in dims)
    return TiledLayout(shape, tuple(draw(st.permutations(parts))))


@given(layouts(), st.sampled_from(["float32", "float16", "int8"]))
def test_what_was_laid_out_can_be_had_back(layout, dtype):
    numbers = np.arange(np.prod(layout.shape))
    if dtype == "float16":
        numbers %= 2039  # float16 holds all below; a prime, so that no dimension is a period
    array = numbers.reshape(layout.shape).astype(dtype)
    tiled = layout.forward(array)
    assert tiled.shape == layout.tiled_shape
    assert tiled.dtype == array.dtype
    assert tiled.flags.c_contiguous
    np.testing.assert_array_equal(layout.inverse(tiled), array)
    np.testing.assert_array_equal(layout.forward(layout.inverse(tiled)), tiled)


@given(layouts())
def test_each_element_lies_where_its_indices_say(layout):
    array = np.arange(np.prod(layout.shape)).reshape(layout.shape)
    tiled = layout.forward(array)
    for indices in np.ndindex(layout.shape):
        places = layout.places(indices)
        assert tiled[places] == array[indices]
        assert layout.indices(places) == indices


@given(layouts())
def test_a_layout_is_natural_only_if_no_element_moves(layout):
    array = np.arange(np.prod(layout.shape)).reshape(layout.shape)
    if layout.is_natural:
        np.testing.assert_array_equal(layout.forward(array).ravel(), array.ravel())


def test_it_reads_as_tvm_writes_it():
    layout = TiledLayout((512, 512), ((1, 4), (1, 8), (1, 16), (0, 512)))
    assert layout.text(["k", "j"]) == "4j8j16j512k"


@pytest.mark.parametrize("parts", [(), ((0, 2),), ((0, 4), (1, 5)), ((0, 4), (2, 6)), ((0, 0),)])
def test_parts_that_do_not_make_up_the_shape_are_refused(parts):
    with pytest.raises(KernelError, match=r"must make up the shape \(4, 6\)"):
        TiledLayout((4, 6), parts)


def kernel():
    args = (Argument("x", (3,), "float32"), Argument("w", (2, 6, 4), "float32"))
    return Kernel("f", "c", "void f(float* x, float* w) {}", args, (KernelCall("f", ("x", "w")),))


def test_a_kernel_says_in_which_layout_it_takes_what():
    layout = TiledLayout((8, 6), ((0, 2), (1, 6), (0, 4)))
    tiled = with_layouts(kernel(), (None, layout))
    assert tiled.args[1] == TiledArgument("w", (2, 6, 4), "float32", "in", layout)
    assert natural_args(tiled.args)[1] == Argument("w", (8, 6), "float32")
    assert natural_kernel(tiled).args == natural_args(tiled.args)
    values = [np.zeros(3, "float32"), np.arange(48, dtype="float32").reshape(8, 6)]
    x, w = laid_out(tiled.args, values)
    assert x is values[0]
    np.testing.assert_array_equal(w, layout.forward(values[1]))


def test_a_kernel_without_layouts_stays_the_same():
    plain = kernel()
    assert with_layouts(plain, ()) is plain
    assert with_layouts(plain, (None, None)) is plain
    assert natural_kernel(plain) is plain


def test_a_layout_of_another_shape_than_the_argument_is_refused():
    with pytest.raises(KernelError, match="'w' has the shape"):
        with_layouts(kernel(), (None, TiledLayout((8, 6), ((1, 6), (0, 8)))))
