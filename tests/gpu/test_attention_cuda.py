"""Attention in one kernel is right on the device."""

import numpy as np
import pytest

from autotune.driver import build
from autotune.target import Target
from tests.auto_scheduler.search.test_several_products import attention
from tests.auto_scheduler.sketch.test_in_block import drawn, in_block


@pytest.mark.gpu
def test_attention_in_one_kernel_is_right_on_the_device():
    """Run each kernel five times: a race would move."""
    arch = Target("cuda").arch or ""
    if not arch.startswith("sm_90"):
        pytest.skip("programs are drawn for compute capability 9.0")
    task, (model,) = in_block(attention(4, 256, 64))
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((4, 256, 64)).astype("float16") for _ in range(3))
    scores = np.einsum("hid,hjd->hij", q, k, dtype=np.float64)
    share = np.exp(scores - scores.max(axis=2, keepdims=True))
    share = (share / share.sum(axis=2, keepdims=True)).astype("float16")
    wanted = np.einsum("hij,hjc->hic", share, v, dtype=np.float64)
    rows = drawn(model, 4)
    assert len(rows) == 4
    for row in rows:
        schedule, arguments = task.realise(model.program.candidate(row)).what
        module = build(schedule, arguments, target="cuda", name="attention")
        for _ in range(5):
            out = np.full(wanted.shape, np.nan, "float16")
            module(q, k, v, out)
            np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=0, atol=4e-3)
