"""Convolutions of many images, pixels or filters: untuned kernels are small enough to launch."""

import re

import autotune.templates  # noqa: F401 - registers the tasks
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create

HOPPER = Target("cuda -arch=sm_90")
# Elements that kernels index, of data and results.
MOST = 2**31 - 1


@st.composite
def extents(draw):
    """Draw images, rows, columns, channels and filters, one or two of them as large as can be."""
    room, sizes = MOST, [1] * 5
    for place in draw(st.permutations(range(5))):
        share = draw(st.sampled_from([1.0, 0.7, 0.2, 0.1]))
        sizes[place] = max(1, int(min(room, 2**27) ** share))
        room //= sizes[place]
    images, rows, columns, ci, co = sizes
    return images, rows + 2, columns + 2, co, ci


TEMPLATES = {
    "NCHW": lambda n, h, w, co, ci: ("conv2d_nchw.cuda", (n, h, w, co, ci, 3, 3)),
    "NHWC": lambda n, h, w, co, ci: ("conv2d_nhwc.cuda", (n, h, w, co, ci, 3, 3)),
    "TF32": lambda n, h, w, co, ci: (
        "conv2d_nhwc.cuda",
        (n, h, w, co, ci, 3, 3, 1, 1, True, "relu", False, False, 1, "tf32"),
    ),
    "16 bits": lambda n, h, w, co, ci: (
        "conv2d_nhwc.cuda",
        (n, h, w, co, ci, 1, 3, 2, 0, False, "none", False, False, 1, "float16"),
    ),
    "depthwise": lambda n, h, w, co, ci: ("depthwise_conv2d.cuda", (n, h, w, co, 1, 3, 3)),
    "Winograd": lambda n, h, w, co, ci: ("winograd_conv2d.cuda", (n, h, w, co, ci)),
    "transposed": lambda n, h, w, co, ci: (
        "conv2d_transpose.cuda",
        ((n, ci, h, w), (ci, co, 2, 2), (2,)),
    ),
    "3-D": lambda n, h, w, co, ci: ("conv3d.cuda", ((n, ci, 3, h, w), (co, ci, 3, 3, 3))),
    "pooling": lambda n, h, w, co, ci: ("pool2d.cuda", ("max", n, h, w, co, 2)),
    "int8": lambda n, h, w, co, ci: ("conv2d_int8.cuda", (n, h, w, co, ci, 3, 3)),
}


def made(name, sizes):
    """Return the task of a convolution, or why there are no kernels for it."""
    try:
        return create(*TEMPLATES[name](*sizes), HOPPER), ""
    except TemplateError as error:
        return None, str(error)


@pytest.mark.parametrize("name", TEMPLATES)
@settings(max_examples=4, derandomize=True)
@given(sizes=extents())
def test_no_untuned_launch_is_larger_than_a_device_takes(name, sizes):
    task, refused = made(name, sizes)
    if task is None:
        assert re.search(r"kernels (take|index)|hold at most", refused)
        return
    kernel = task.instantiate(task.default()).kernel("cuda")
    assert launch_violation(kernel, HOPPER.limits) is None


@pytest.mark.parametrize(
    ("name", "sizes", "words"),
    [
        ("pooling", (1, 3, 3, 51130563, 1), "up to 4194240 channels of NCHW images"),
        ("NCHW", (1, 4, 3, 2**26, 1), "up to 4194240 filters of a group"),
        ("3-D", (1, 3, 3, 2**23, 1), "up to 4194240 filters of a group"),
        ("Winograd", (16, 2050, 40000, 172238, 3), "128 times as many of their channels"),
    ],
)
def test_more_blocks_than_a_grid_has_are_refused_in_words(name, sizes, words):
    assert words in made(name, sizes)[1]
