"""What races of products call untuned is what the template runs where nothing was tuned."""

import pytest

from autotune.task import create
from benchmarks.half_products import Case, plans_of


@pytest.mark.parametrize("name", ["24x4096x9008 nt int8", "1024x192x768 int8", "160x1360x1672"])
def test_the_first_kernel_of_a_race_is_that_of_the_template(name):
    shape = Case.of(name).shape
    args = (shape.m, shape.n, shape.k, shape.dtype, 1, False, shape.transpose_b)
    task = create("gemm.cuda", args, "cuda -arch=sm_90")
    (_, kernel, _), *others = plans_of(Case.of(name), 1, lambda kernel: kernel)
    assert kernel.source == task.instantiate(task.default()).kernel("cuda").source
    assert others
    assert kernel.source not in {other.source for _, other, _ in others}
