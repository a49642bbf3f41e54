"""Kernels that may begin before the one before them has ended, and wait for it themselves."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_nchw_half
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.window_shape import Window
from autotune.templates.products import gemm_bf16x3, gemm_half, gemm_padded, gemm_transposed
from autotune.templates.products.gemm_shape import Gemm

from autotune.driver import as_built
from autotune.driver.kernel_of import kernel_of
from autotune.errors import TemplateError
from autotune.kernel.dependent_launch import waits
from autotune.target import Target
from autotune.task import create

PADDED = gemm_padded.Padded(gemm_half)
ODD = Gemm(1023, 1023, 1023, "float16")
BY_BOXES = {
    "wgmma": 2, "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 16, "chunk": 64, "stages": 4,
    "split": 1, "band": 1,
}  # fmt: skip
MMA = {
    "wgmma": 0, "warps_m": 2, "warps_n": 2, "frags_m": 2, "frags_n": 4, "chunk": 32, "stages": 2,
    "split": 1, "band": 1,
}  # fmt: skip
FLOATS, TF32 = Gemm(1024, 1024, 1024), Gemm(512, 512, 514, "tf32", 1, True, False)
PIECES = {"tile_n": 128, "chunk": 32, "stages": 4, "in_turn": 1, "split": 1, "band": 1}
HOPPER = Target("cuda -arch=sm_90")
LAYER = Conv2dNhwc(1, 15, 28, 130, 128, Window((1, 7), padding=(0, 3, 0, 3)), "float16")
CELLS = {
    "rows": 4, "across": 1, "groups": 1, "channels": 16, "filter_stages": 2, "split": 4,
}  # fmt: skip
# Kernels of several, which may begin early, and the entries that then wait.
SEVERAL = {
    "copies, boxes": (PADDED.kernel(ODD, BY_BOXES), [False, True]),
    "copies, boxes, split": (PADDED.kernel(ODD, {**BY_BOXES, "split": 2}), [False, True, False]),
    "copies, wgmma": (PADDED.kernel(ODD, {**BY_BOXES, "wgmma": 1}), [False, True]),
    "copies, mma": (PADDED.kernel(ODD, MMA), [False, False]),
    "pieces": (gemm_bf16x3.kernel(FLOATS, PIECES), [False, True]),
    "filters": (conv2d_nchw_half.kernel(LAYER, CELLS), [False, True]),
    "turned": (gemm_transposed.kernel(TF32, {**BY_BOXES, "wgmma": 1}), [False, False, True]),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_only_kernels_that_wait_begin_early(name):
    source, early = SEVERAL[name]
    assert [one.launch.early for one in source.kernel("cuda").calls] == early


def ptx_of_entries(kernel, folder):
    text = folder / "kernel.cu"
    text.write_text(kernel.source)
    flags = (
        kernel.flags if any("-arch" in f for f in kernel.flags) else ["-arch=sm_90", *kernel.flags]
    )
    command = ["nvcc", "-ptx", *flags, text, "-o", folder / "out"]
    subprocess.run(command, check=True, capture_output=True)
    entries = (folder / "out").read_text().split(".entry ")[1:]
    return {one.split("(")[0].strip(): one for one in entries}


LOADS = re.compile(r"\b(ld\.global|cp\.async|atom\.|red\.)")
# Loads before the wait, of images, which the kernel that packs filters does not write.
EARLIER = {"conv2d_nchw_half": {"ld.global"}}


@pytest.mark.many_cases
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("name", SEVERAL)
def test_a_kernel_that_begins_early_loads_nothing_before_it_waits(name, tmp_path):
    """Of a ``const`` pointer that is ``__restrict__`` a compiler may move loads across a wait."""
    source, _ = SEVERAL[name]
    kernel = as_built(source.kernel("cuda"), HOPPER)
    entries = ptx_of_entries(kernel, tmp_path)
    for call in kernel.calls:
        before, wait, _ = entries[call.entry].partition("griddepcontrol.wait")
        assert call.launch.early
        assert wait
        assert set(LOADS.findall(before)) <= EARLIER.get(call.entry, set())


# Templates of which some kernels wait by their own texts.
WAITING = {
    "gemm.cuda": [
        (1023, 511, 255, "float16"), (512, 512, 514, "tf32", 1, True, False),
        (255, 257, 1023, "float32"), (16, 1024, 2048, "float16", 1, True, False),
        (255, 511, 1023, "int8"), (8, 1024, 2048, "int8", 1, False, True),
    ],
    "conv2d_nchw.cuda": [(1, 15, 28, 130, 128, 1, 7, 1, (0, 3))],
    "conv2d_nhwc.cuda": [
        (1, 15, 13, 65, 131, 3, 3, 1, 1, False, "none", False, False, 1, "float16"),
    ],
    "conv2d_transpose.cuda": [((1, 512, 28, 28), (512, 256, 2, 2), (2,))],
    "attention.cuda": [(1, 8, 1, 2048, 64, 2), (1, 2, 64, 4096, 64)],
    "reduce.cuda": [("argmax", 1, 1 << 20), ("sum", 300, 1000, 64)],
    "cumsum.cuda": [(4, 1 << 17)],
    "softmax.cuda": [(4, 1 << 17)],
}  # fmt: skip


@pytest.mark.parametrize(("name", "args"), [(n, a) for n, every in WAITING.items() for a in every])
def test_kernels_that_wait_by_their_own_texts_are_known_to(name, args):
    """Another wait at their start would cost what they begin early for."""
    task, found = create(name, args, HOPPER), 0
    for i in task.config_space.sample(60, np.random.default_rng(0)):
        try:
            kernel = kernel_of(task.instantiate(task.config_space.get(i)), HOPPER)
        except TemplateError:
            continue
        early = [one.entry for one in kernel.calls if one.launch.early]
        assert all(waits(kernel.source, entry) for entry in early)
        found += len(early)
    assert found


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize(("n", "triggers"), [(1023, True), (1024, False)])
def test_a_product_lets_the_next_kernel_begin_only_behind_copies(n, triggers, tmp_path):
    family = PADDED if triggers else gemm_half
    kernel = family.kernel(Gemm(n, n, n, "float16"), BY_BOXES).kernel("cuda")
    product = ptx_of_entries(kernel, tmp_path)["gemm_tma"]
    assert ("griddepcontrol.launch_dependents" in product) == triggers
