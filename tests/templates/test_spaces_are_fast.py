"""Spaces of all templates for the layers that networks have: made and counted without a wait."""

import time

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest

from autotune.task import ConfigSpace, create
from autotune.task.constraints.filters import CHECKS
from autotune.task.template import TASK_TABLE
from tests.pace import is_within

CONV = (1, 56, 56, 64, 64, 3, 3, 1, 1, True)
ROWS = (4096, 4096)
EXPRESSION = ("relu(a * s) + b", [(n, (64, 56, 56)) for n in "asb"])
# The largest spaces that layers of ResNet, MobileNet, BERT and GPT-2 have, for each template.
STANDARD = {
    "attention.cuda": [(4, 16, 2048, 2048, 128, 4, True), (8, 32, 1, 4096, 128, 8)],
    "attention.cpu": [(1, 12, 1024, 1024, 64)],
    "conv2d_nchw.cpu": [
        CONV, (1, 56, 56, 256, 256, 3, 3, 1, 1, True, True, False, False, False, False, 1, 32)
    ],
    "conv2d_nchw.cuda": [
        CONV, (1, 224, 224, 64, 3, 7, 7, 2, 3), (16, 28, 28, 128, 128, 3, 3, 1, 1)
    ],
    "conv2d_nhwc.cuda": [
        CONV, (*CONV, "relu", True, False, 1, "float16"),
        (8, 112, 112, 256, 256, 3, 3, 1, 1, True, "relu", True, False, 1, "float16", 32),
    ],
    "conv2d_transpose.cuda": [((1, 512, 28, 28), (512, 256, 2, 2), (2,))],
    "conv3d.cuda": [((1, 64, 16, 56, 56), (64, 64, 3, 3, 3), (1,), (1,))],
    "cumsum.cpu": [ROWS],
    "cumsum.cuda": [ROWS],
    "depthwise_conv2d.cpu": [(1, 112, 112, 96, 1, 3, 3, 2, 1)],
    "depthwise_conv2d.cuda": [(1, 112, 112, 96, 1, 3, 3, 2, 1)],
    "elementwise.cpu": [EXPRESSION],
    "elementwise.cuda": [EXPRESSION],
    "gemm.cuda": [
        (197, 3072, 768, "float32", 1, False, True, True, "gelu"), (4096, 4096, 4096, "tf32"),
        (2048, 50257, 768, "float16", 1, False, True), (5502, 629, 33, "float16"),
        (64, 151936, 896, "float16", 1, False, True), (1024, 1024, 1024, "int8", 1, False, True),
    ],
    "gemm.cpu": [(512, 512, 64, 16, False, True)],
    "gemm_nn.cpu": [(1024, 1024, 1024)],
    "conv2d_int8.cpu": [(1, 56, 56, 64, 64, 3, 3, 1, 1)],
    "gemm_int8.cpu": [(197, 3072, 768)],
    "conv2d_int8.cuda": [(32, 14, 14, 256, 256, 3, 3, 1, 1)],
    "gemm_int8.cuda": [(512, 1024, 1024)],
    "gemm_packed.cpu": [(197, 3072, 768, True)],
    "gemm_nn.cuda": [(4096, 4096, 4096), (4096, 4096, 4096, "float16"), (16, 4096, 4096)],
    "group_norm.cpu": [(1, 64, 3136, 8)],
    "group_norm.cuda": [(1, 64, 3136, 8)],
    "layer_norm.cpu": [ROWS],
    "layer_norm.cuda": [ROWS],
    "log_softmax.cpu": [ROWS],
    "log_softmax.cuda": [ROWS],
    "matvec.cuda": [(4096, 4096, 4, "float16")],
    "pool2d.cpu": [("max", 1, 112, 112, 64, 3, 2, 1)],
    "pool2d.cuda": [("max", 32, 112, 112, 64, 3, 2, 1)],
    "reduce.cpu": [("sum", 4096, 4096), ("argmax", 1, 16777216)],
    "reduce.cuda": [("sum", 4096, 4096), ("argmax", 1, 16777216)],
    "rms_norm.cpu": [ROWS],
    "rms_norm.cuda": [ROWS],
    "softmax.cpu": [ROWS],
    "softmax.cuda": [ROWS],
    "take_rows.cuda": [(50257, 768, 1024)],
    "te/conv2d_nchw.cpu": [(1, 56, 56, 64, 64, 3, 3, 1, 1)],
    "te/conv2d_nchw.cuda": [(1, 56, 56, 64, 64, 3, 3, 1, 1)],
    "te/conv2d_nchw_winograd.cuda": [(1, 56, 56, 64, 64, 3, 1)],
    "te/dense.cpu": [(16, 1000, 4096)],
    "te/dense.cuda": [(16, 1000, 4096)],
    "te/depthwise_conv2d_nchw.cpu": [(1, 112, 112, 96, 1, 3, 3, 2, 1)],
    "te/depthwise_conv2d_nchw.cuda": [(1, 112, 112, 96, 1, 3, 3, 2, 1)],
    "te/gemm.cpu": [(1024, 1024, 1024)],
    "te/gemm.cuda": [(4096, 4096, 4096)],
    "te/softmax.cpu": [ROWS],
    "te/softmax.cuda": [ROWS],
    "transpose.cpu": [((64, 128, 56, 56), (0, 2, 3, 1))],
    "transpose.cuda": [((64, 128, 56, 56), (0, 2, 3, 1))],
    "winograd_conv2d.cpu": [CONV[:5]],
    "winograd_conv2d.cuda": [CONV[:5]],
}  # fmt: skip
WORKLOADS = [(name, args) for name, every in STANDARD.items() for args in every]


def test_every_template_that_ships_is_here():
    shipped = {
        name
        for name, entry in TASK_TABLE.items()
        if (entry.fcustomized.__module__ if entry.fcustomized else "").startswith(
            "autotune.templates."
        )
    }
    assert shipped == STANDARD.keys()


@pytest.mark.many_cases
@pytest.mark.parametrize(("name", "args"), WORKLOADS)
def test_a_space_is_made_and_counted_in_a_second(name, args):
    begun = time.process_time()
    task = create(name, args, "llvm" if name.endswith("cpu") else "cuda -arch=sm_90")
    assert len(task.config_space) >= 10
    task.config_space.sample(64, np.random.default_rng(0))
    assert is_within(time.process_time() - begun, 1.0)


# Of odd rows, 8-bit integers and TF32, whose kernels have the most families and conditions.
MANY_CONDITIONS = [
    ("gemm.cuda", (2000, 2001, 100, "float16")), ("gemm.cuda", (512, 512, 512, "tf32")),
    ("gemm.cuda", (13, 595, 200, "float16", 1, False, True)),
    ("gemm.cuda", (896, 640, 1152, "tf32", 1, True)),
    ("gemm.cuda", (236, 27, 125, "bfloat16", 48, False, True)),
    ("gemm.cuda", (1023, 1000, 1000, "int8")),
    ("conv2d_nhwc.cuda", (1, 7, 7, 512, 512, 3, 3, 1, 1, False, "none", False, False, 1, "tf32")),
    ("conv2d_nhwc.cuda", (2, 56, 56, 91, 100, 3, 3, 2, 1, False, "none", False, False, 1, "tf32")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), MANY_CONDITIONS)
def test_spaces_of_several_families_are_listed_from_few_paths_and_few_choices(
    name, args, monkeypatch
):
    calls = 0
    multi_filter = ConfigSpace.multi_filter

    def counting(space, predicate):
        def counted(entities):
            nonlocal calls
            calls += 1
            return predicate(entities)

        multi_filter(space, counted)

    monkeypatch.setattr(ConfigSpace, "multi_filter", counting)
    space = create(name, args, "cuda -arch=sm_90").config_space
    assert len(space) > 100
    assert space.len_is_exact
    assert calls <= CHECKS + 30  # a path for each rule of each family would be up to 310
    (listing,) = space._points._listings
    assert listing.looked_at <= 200_000


class Counting(np.random.Generator):
    """Counts the numbers that are drawn."""

    drawn = 0

    def integers(self, total, size):
        self.drawn += size
        return super().integers(total, size=size)


def test_the_few_valid_ones_of_many_points_are_drawn_from_a_list():
    space = create("gemm_nn.cuda", (1, 8, 64, "float16"), "cuda -arch=sm_90").config_space
    rng = Counting(np.random.PCG64(0))
    found = space.sample(100, rng)
    assert rng.drawn < 1000  # to draw until all were found took 2e8, and with checks of each 1e7
    assert len(set(found.tolist())) == len(space) == 10
