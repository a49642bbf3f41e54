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


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("name", SEVERAL)
def test_a_kernel_that_begins_early_has_the_instruction_that_waits(name, tmp_path):
    source, _ = SEVERAL[name]
    kernel, text = source.kernel("cuda"), tmp_path / "kernel.cu"
    text.write_text(kernel.source)
    flags = (
        kernel.flags if any("-arch" in f for f in kernel.flags) else ["-arch=sm_90", *kernel.flags]
    )
    command = ["nvcc", "-ptx", *flags, text, "-o", tmp_path / "out"]
    subprocess.run(command, check=True, capture_output=True)
    entries = (tmp_path / "out").read_text().split(".entry ")[1:]
    waits = {one.split("(")[0].strip(): "griddepcontrol.wait" in one for one in entries}
    assert all(waits[call.entry] for call in kernel.calls if call.launch.early)
