"""Attention by wgmma, with the device's own instructions, lacks no wait and no fence unseen."""

import re
from dataclasses import replace

import numpy as np
import pytest

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.errors import DeviceError
from tests.templates.attention.test_attention_wgmma import (
    Attention,
    arrays_of,
    attention_wgmma,
    choice_of,
)

READS = r"reads at attention_wgmma.cu:\d+ a sum of the product .* which it has not waited for"
FENCE = "  wgmma_fence();\n"
LATE = "    compute_before_waiting(sums.total[0] + sums.total[1]);\n    wgmma_wait<0>();\n"
# What is left out, the function in which it is, and what is reported.
MUTANTS = {
    "first-wait": ("  wgmma_wait<0>();\n", "consume", READS),
    "wait-for-scores": ("    wgmma_wait<1>();\n", "consume", READS),
    "wait-for-values": (LATE, "consume", READS),
    "last-wait": (
        "  wgmma_wait<0>();\n  fence_accumulators(flat(sums.out));\n", "consume", READS,
    ),
    "first-fence": (FENCE, "multiply_keys", "issues a product .* with no wgmma.fence before it"),
    "second-fence": (
        FENCE, "multiply_values",
        "issues a product .* that adds to sums which it has changed, with no wgmma.fence between",
    ),
}  # fmt: skip


def run(tmp_path, part="", function="consume"):
    source = attention_wgmma.kernel(Attention(1, 1, 1, 64, 256, 64), choice_of(4, 64, 2))
    kernel, arrays = source.kernel("cuda"), arrays_of(source)
    text = re.sub("#ifdef AUTOTUNE_EMULATE", "#if 0", kernel.source)
    begin = text.index(part, text.index(f"void {function}("))
    kernel = replace(kernel, source=text[:begin] + text[begin + len(part) :])
    library = compile_emulated(kernel, tmp_path / "kernel.so", arch="sm_90")
    EmulatedKernel(library, kernel).run(arrays)
    return arrays[-1], source.reference(*(x.astype("f8") for x in arrays[:-1]))


def test_a_kernel_that_is_right_is_not_reported(tmp_path):
    computed, wanted = run(tmp_path)
    np.testing.assert_allclose(computed.astype("f8"), wanted, rtol=3e-2, atol=3e-3)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", MUTANTS)
def test_a_wait_or_fence_that_lacks_is_reported(name, tmp_path):
    part, function, message = MUTANTS[name]
    with pytest.raises(DeviceError, match=message):
        run(tmp_path, part, function)
