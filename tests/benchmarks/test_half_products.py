"""What races of products call untuned is what the template runs where nothing was tuned."""

import pytest

from autotune.task import create
from benchmarks.half_products import Case, plans_of


@pytest.mark.parametrize(
    "name", ["24x4096x9008 nt int8", "1024x192x768 int8", "160x1360x1672", "48x1104x1056 tn"]
)
def test_the_first_kernel_of_a_race_is_that_of_the_template(name):
    shape = Case.of(name).shape
    args = (shape.m, shape.n, shape.k, shape.dtype, 1, shape.transpose_a, shape.transpose_b)
    task = create("gemm.cuda", args, "cuda -arch=sm_90")
    (_, kernel, _), *others = plans_of(Case.of(name), 1, lambda kernel: kernel)
    assert kernel.source == task.instantiate(task.default()).kernel("cuda").source
    assert others
    assert kernel.source not in {other.source for _, other, _ in others}


@pytest.mark.parametrize(
    "name", ["768", "24x4096x9008 nt int8", "48x1104x1056 tn", "8x816x576 tt"]
)
def test_names_of_products_say_how_both_matrices_are_stored(name):
    case = Case.of(name)
    assert str(case) == name
    assert ("tn" in name or "tt" in name) == case.shape.transpose_a
