"""Kernels whose blocks form clusters compute in the emulator what their references do.

It runs the text of a device, inline PTX and all, and watches memory: that no block reads what
another has not written yet, or writes what another still reads, and that none exits too early.
"""

from dataclasses import replace

import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_bf16x3, conv2d_cuda, conv2d_nchw_half
from autotune.templates.convolutions.conv2d_nchw_tma import OF_IMAGES
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.conv2d_shape import Conv2d
from autotune.templates.convolutions.window_shape import Window
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import (
    gemm_bf16x3,
    gemm_cuda,
    gemm_few_across,
    gemm_skinny,
    gemm_skinny_across,
    gemm_skinny_unaligned,
    gemm_tma,
    gemm_tma_tiling,
    gemm_unaligned,
    gemm_unaligned_form,
    gemm_wgmma,
    matvec_across,
)
from autotune.templates.products.gemm_shape import Gemm

from autotune.driver import build
from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.errors import DeviceError
from autotune.target import Target
from autotune.task import create
from tests.templates.emulated import arrays_of

REST = Epilogue(bias=True, residual=True, affine=True, activation="gelu", alpha=0.5)
GELU = Epilogue(bias=True, activation="gelu")
TMA = {
    "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 8, "chunk": 64, "stages": 2, "split": 1,
    "band": 2,
}  # fmt: skip
EDGES = Gemm(136, 136, 264, "float16", 1, False, True, "", REST)
WINDOW = Window((3, 3), padding=(1, 1, 1, 1))
FEW = Gemm(136, 136, 264, "float16", 1, False, True, "", GELU)


def tma(form, shape=EDGES, **change):
    return gemm_tma, shape, {**TMA, "wgmma": gemm_tma.Form(*form).knob, **change}


def planes(form, shape, **change):
    return OF_IMAGES, shape, {**TMA, "wgmma": gemm_tma.Form(*form).knob, "band": 1, **change}


def unaligned(form, shape, **change):
    knob = gemm_unaligned_form.Form(*form).knob
    return gemm_unaligned, shape, {**TMA, "wgmma": knob, "frags_n": 9, **change}


# Families, shapes with edges everywhere, and choices.
CASES = {
    "tma-2x1": tma((0, 2), stages=3),
    "tma-1x2-tn": tma((0, 1, 0, 2), Gemm(136, 200, 136, "bfloat16", 2, True), warps_m=8, band=1),
    "tma-2x2-crossed": tma((0, 2, 0, 2)),
    "tma-4x2-whole": tma((0, 4, 0, 2), Gemm(256, 128, 192, "float16"), band=4),
    "tma-2x4-swapped": tma((0, 2, 1, 4), FEW, frags_n=4),
    "tma-cooperative": tma((1, 2), warps_m=8),
    "tma-ping-pong": tma((2, 2), stages=3),
    "tma-tf32": tma((0, 2), Gemm(136, 72, 68, "tf32", 1, False, True), chunk=32),
    "tma-split": tma((0, 1, 0, 1, 1), FEW, split=2),
    "tma-split-2x2": tma((0, 2, 0, 2, 1), FEW, split=2),
    "tma-split-swapped": tma((0, 2, 1, 1, 1), Gemm(24, 200, 264, "float16"), split=2, frags_n=4),
    "planes-1x2": planes(
        (0, 1, 1, 2), Conv2dNhwc(1, 5, 7, 66, 64, WINDOW, "float16"), warps_m=8, frags_n=3,
        stages=3,
    ),
    "planes-two-ranges": planes(
        (0, 1, 1, 1, 1), Conv2dNhwc(1, 6, 6, 70, 64, WINDOW, "bfloat16"), frags_n=4, split=2
    ),
    "planes-ping-pong-2x1": planes(
        (2, 2, 1), Conv2dNhwc(3, 6, 7, 136, 72, Window((1, 1)), "float16"), frags_n=6, band=2
    ),
    "planes-2x1-two-ranges": planes(
        (0, 2, 1, 1, 1), Conv2dNhwc(2, 5, 5, 136, 264, Window((1, 1)), "float16"), frags_n=6,
        split=2, band=2,
    ),
    "wgmma": (
        gemm_wgmma, Gemm(66, 72, 712, "float16", 1, False, True, "", REST), {**TMA, "split": 4},
    ),
    "wgmma-tf32": (
        gemm_wgmma, Gemm(66, 71, 140, "tf32", 1, False, True), {**TMA, "split": 2, "chunk": 32},
    ),
    "skinny": (
        gemm_skinny, Gemm(24, 72, 712, "bfloat16", 2, False, True, "", REST),
        {**TMA, "wgmma": gemm_skinny.VALUE, "frags_n": 3, "split": 4, "band": 1},
    ),
    "few-across": (
        gemm_few_across, Gemm(24, 72, 715, "bfloat16", 1, True, epilogue=GELU),
        {**TMA, "wgmma": gemm_skinny.VALUE, "frags_n": 3, "split": 4, "band": 1},
    ),
    "few-across-ranges": (
        gemm_few_across, Gemm(32, 200, 320, "float16", 1, True, True),
        {**TMA, "wgmma": gemm_tma.Form(0, 1, 1, 1, 1).knob, "frags_n": 4, "split": 2, "band": 1},
    ),
    "unaligned-2x1": unaligned(
        (0, 2, 1), Gemm(131, 71, 72, "float16", 1, epilogue=REST), warps_m=8, band=1
    ),
    "unaligned-1x2": unaligned(
        (0, 1, 2), Gemm(66, 137, 72, "bfloat16"), warps_m=8, frags_n=10, band=1
    ),
    "unaligned-3x1-nt": unaligned(
        (0, 3, 1), Gemm(131, 71, 72, "float16", 1, False, True), warps_m=8, frags_n=6, band=1
    ),
    "unaligned-3x1-two-ranges": unaligned(
        (1, 3, 1), Gemm(131, 71, 171, "float16"), frags_n=2, split=2, band=1
    ),
    "unaligned-five-ranges": unaligned(
        (0,), Gemm(35, 71, 576, "float16"), frags_n=5, split=5, band=1
    ),
    "bf16x3": (
        gemm_bf16x3, Gemm(70, 74, 140, epilogue=REST),
        {"tile_n": 80, "chunk": 64, "stages": 2, "in_turn": 1, "split": 2, "band": 1},
    ),
    "floats": (
        gemm_cuda, Gemm(33, 36, 70, "float32", 2, epilogue=REST),
        {"rows": 8, "cols": 16, "threads_m": 8, "threads_n": 4, "slices": 2, "split": 4,
         "step": 8, "stages": 3, "cluster": 1, "transposed": 0},
    ),
    "matvec": (
        matvec_across, Gemm(3, 64, 96, epilogue=GELU),
        {"vec": 1, "across": 64, "along": 1, "ahead": 4, "split": 4},
    ),
    "skinny-across": (
        gemm_skinny_across, Gemm(3, 67, 301, "bfloat16", epilogue=GELU),
        {"strips": 1, "along": 1, "ahead": 1, "split": 4},
    ),
    "skinny-unaligned": (
        gemm_skinny_unaligned, Gemm(9, 67, 301, "float16", transpose_b=True, epilogue=GELU),
        {"groups": 1, "along": 2, "together": 1, "split": 4},
    ),
    "images": (
        conv2d_cuda, Conv2d(1, 9, 10, 20, 16, 3, 3, (1, 1), (1, 1), True, False),
        {"channels": 4, "groups": 8, "pixels": 8, "columns": 1, "rows": 7, "slices": 2,
         "split": 2, "step": 2, "stages": 2, "taps": 0, "cluster": 1},
    ),
    "images-bf16x3": (
        conv2d_bf16x3, Conv2d(1, 9, 10, 128, 16, 3, 3, (1, 1), (1, 1), True, False),
        {"rows": 5, "chunk": 8, "slices": 1, "split": 2, "stages": 1, "ahead": 2},
    ),
    "images-half": (
        conv2d_nchw_half, Conv2dNhwc(1, 5, 9, 20, 120, Window((1, 3)), "float16"),
        {"rows": 4, "across": 1, "groups": 1, "channels": 16, "filter_stages": 1, "split": 8},
    ),
    "images-half-two-k-tiles": (
        conv2d_nchw_half, Conv2dNhwc(1, 5, 9, 72, 120, Window((1, 3)), "bfloat16"),
        {"rows": 6, "across": 1, "groups": 2, "channels": 16, "filter_stages": 2, "split": 4},
    ),
}  # fmt: skip


def results(kernel, arrays, folder):
    """Yield what a kernel computes in two orders, of which the first delays what it may."""
    library = compile_emulated(kernel, folder / "kernel.so", arch="sm_90", device_text=True)
    for order in (0, 7):
        given = [np.array(array) for array in arrays]
        EmulatedKernel(library, kernel).run(given, order)
        yield given[-1].astype(np.float64)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", CASES)
def test_clusters_compute_what_their_reference_does(name, tmp_path, monkeypatch):
    monkeypatch.setattr(gemm_tma_tiling, "MULTIPROCESSORS", 2)  # some blocks have several tiles
    family, shape, choice = CASES[name]
    source = family.kernel(shape, choice)
    assert "__cluster_dims__" in source.text()
    arrays = arrays_of(source)
    wanted = source.reference(*(x.astype(np.float64) for x in arrays[:-1]))
    tolerance = 1e-4 if getattr(shape, "dtype", "float32") == "float32" else 2e-2
    for got in results(source.kernel("cuda"), arrays, tmp_path):
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=2 * tolerance)


# Parts of kernels, each needed for what blocks or threads do at the same time, what stands there
# instead, and what is reported.
MISTAKES = {
    "no-barrier-at-the-start": (
        "tma-2x1", "  cluster_arrive();\n  cluster_wait();\n", "", "may not have started",
    ),
    "no-barrier-at-the-end": (
        "skinny", "reads its shared memory.\n  cluster_sync();", "memory.", "which has exited",
    ),
    "a-barrier-of-the-block-alone": (
        "floats", "\n  cluster_sync();\n", "\n  __syncthreads();\n", "may not have started",
    ),
    "a-stage-released-to-the-own-block-alone": (
        "tma-2x1", "to = k_tile < refills ? multicast_peer(lane) :", "to =",
        r"writes .* while the product \(wgmma\) .* that reads it has not been waited for",
    ),
    "a-stage-released-while-it-is-multiplied": (
        "wgmma", "    wgmma_wait<1>();\n    if (signals", "    if (signals",
        r"writes .* while the product \(wgmma\) .* that reads it has not been waited for",
    ),
    "fewer-bytes-expected-than-sent": (
        "wgmma", "barrier_arrive_expect_tx(sent, PART_BYTES)",
        "barrier_arrive_expect_tx(sent, PART_BYTES - 16)",
        "reads dynamic .* while the load that an mbarrier counts .* has not been waited for",
    ),
    "operands-that-are-copied-and-not-fenced": (
        "wgmma", "    fence_proxy_async();\n", "",
        r"issues a product \(wgmma\) .* wrote at .*, with no fence.proxy.async between",
    ),
    "sums-over-a-barrier": (
        "images-half", " + BARRIERS_AT;", " + STAGED_BYTES;", r"mbarrier .* was written over",
    ),
    "results-that-are-stored-and-not-fenced": (
        "tma-4x2-whole", "if (whole) fence_proxy_async();", "",
        r"issues a store \(TMA\) .* wrote at .*, with no fence.proxy.async between",
    ),
}  # fmt: skip


def with_mistake(name, part, instead):
    """Return the kernel of a case with a part of it replaced, and its source."""
    family, shape, choice = CASES[name]
    source = family.kernel(shape, choice)
    kernel = source.kernel("cuda")
    assert part in kernel.source
    return replace(kernel, source=kernel.source.replace(part, instead)), source


@pytest.mark.many_cases
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported(name, tmp_path):
    case, part, instead, message = MISTAKES[name]
    kernel, source = with_mistake(case, part, instead)
    with pytest.raises(DeviceError, match=message):
        list(results(kernel, arrays_of(source), tmp_path))


def test_the_space_of_an_emulated_device_has_clusters_that_run():
    target = Target("cuda -emulate -arch=sm_90")
    task = create("gemm.cuda", (12, 64, 96, "float32"), target)
    space = task.config_space
    drawn = map(space.get, space.sample(400, np.random.default_rng(1)))
    source = task.instantiate(next(each for each in drawn if each["cluster"].val))
    assert "__cluster_dims__" in source.text()
    arrays = arrays_of(source)
    build(source, target=target)(*arrays)
    np.testing.assert_allclose(arrays[-1], source.reference(*arrays[:-1]), rtol=1e-4, atol=1e-4)
