"""Kernels that may begin before the one before them has ended, and wait for it themselves."""

import shutil
import subprocess

import pytest
from autotune.templates.products import gemm_bf16x3, gemm_half, gemm_padded, gemm_transposed
from autotune.templates.products.gemm_shape import Gemm

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
# Kernels of several, which may begin early, and the entries that then wait.
SEVERAL = {
    "copies, boxes": (PADDED.kernel(ODD, BY_BOXES), [False, True]),
    "copies, boxes, split": (PADDED.kernel(ODD, {**BY_BOXES, "split": 2}), [False, True, False]),
    "copies, wgmma": (PADDED.kernel(ODD, {**BY_BOXES, "wgmma": 1}), [False, True]),
    "copies, mma": (PADDED.kernel(ODD, MMA), [False, False]),
    "pieces": (gemm_bf16x3.kernel(FLOATS, PIECES), [False, True]),
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


@pytest.mark.many_cases
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("name", SEVERAL)
def test_a_kernel_that_begins_early_has_the_instruction_that_waits(name, tmp_path):
    source, _ = SEVERAL[name]
    kernel = source.kernel("cuda")
    entries = ptx_of_entries(kernel, tmp_path)
    waiting = [call.entry for call in kernel.calls if call.launch.early]
    assert all("griddepcontrol.wait" in entries[entry] for entry in waiting)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize(("n", "triggers"), [(1023, True), (1024, False)])
def test_a_product_lets_the_next_kernel_begin_only_behind_copies(n, triggers, tmp_path):
    family = PADDED if triggers else gemm_half
    kernel = family.kernel(Gemm(n, n, n, "float16"), BY_BOXES).kernel("cuda")
    product = ptx_of_entries(kernel, tmp_path)["gemm_tma"]
    assert ("griddepcontrol.launch_dependents" in product) == triggers
