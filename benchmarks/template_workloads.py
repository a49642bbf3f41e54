"""The workloads of `benchmarks.templates_gpu`: shapes of every CUDA template, and rivals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.layer_workloads import layers
from benchmarks.rivals import (
    Named,
    conv_rivals,
    depthwise_rivals,
    matmul_rivals,
    padded_matmul_rivals,
    pool_rivals,
    reduce_rivals,
    row_rivals,
    transpose_rivals,
)

Choice = dict[str, int]
# Largest errors, relative to the largest result, by types of products; of others 2e-3.
TOLERANCES = {"float32": 1e-4, "int8": 1e-4, "bfloat16": 1e-2}


@dataclass(frozen=True)
class Workload:
    """One shape of one template: how to draw, render and rival it."""

    name: str
    candidates: dict[str, list[int]]
    violation: Callable[[Choice], str | None]
    estimate: Callable[[Choice], float]
    kernel: Callable[[Choice], Any]
    default: Callable[[], Choice]
    rivals: Callable[[list[Any]], Named]
    flop: int
    bytes: int
    # What is right, of all arguments on the device; None: the kernel's reference says so.
    wanted: Callable[[list[Any]], Any] | None = None
    # Largest error, relative to the largest result.
    tolerance: float = 1e-4


CONVS = {
    "conv 512->512 k3 s1 7x7": (1, 7, 7, 512, 512, 3, 3, 1, 1),
    "conv 3->64 k7 s2 224": (1, 224, 224, 64, 3, 7, 7, 2, 3),
    "conv 64->64 k3 s1 56": (1, 56, 56, 64, 64, 3, 3, 1, 1),
    "conv 64->128 k3 s2 56": (1, 56, 56, 128, 64, 3, 3, 2, 1),
    "conv 64->128 k1 s2 56": (1, 56, 56, 128, 64, 1, 1, 2, 0),
    "conv 128->128 k3 s1 28": (1, 28, 28, 128, 128, 3, 3, 1, 1),
    "conv 128->256 k3 s2 28": (1, 28, 28, 256, 128, 3, 3, 2, 1),
    "conv 128->256 k1 s2 28": (1, 28, 28, 256, 128, 1, 1, 2, 0),
    "conv 256->256 k3 s1 14": (1, 14, 14, 256, 256, 3, 3, 1, 1),
    "conv 256->512 k3 s2 14": (1, 14, 14, 512, 256, 3, 3, 2, 1),
    "conv 256->512 k1 s2 14": (1, 14, 14, 512, 256, 1, 1, 2, 0),
    "conv 128->128 k3 s1 28 batch 16": (16, 28, 28, 128, 128, 3, 3, 1, 1),
    "conv 512->512 k3 s1 7x7 batch 16": (16, 7, 7, 512, 512, 3, 3, 1, 1),
}
# Channels, filters, extent and stride of the 1x1 layers of ResNet-50.
POINTWISE = (
    (64, 64, 56, 1), (256, 64, 56, 1), (64, 256, 56, 1), (256, 128, 56, 1), (256, 512, 56, 2),
    (512, 128, 28, 1), (128, 512, 28, 1), (512, 256, 28, 1), (512, 1024, 28, 2),
    (1024, 256, 14, 1), (256, 1024, 14, 1), (1024, 512, 14, 1), (1024, 2048, 14, 2),
    (2048, 512, 7, 1), (512, 2048, 7, 1),
)  # fmt: skip
CONVS |= {
    f"conv {ci}->{co} k1 {'s2 ' * (step == 2)}{size}": (1, size, size, co, ci, 1, 1, step, 0)
    for ci, co, size, step in POINTWISE
}
# Channels, extent and stride of the depthwise layers of MobileNet-V2.
DEPTHWISE = (
    (32, 112, 1), (96, 112, 2), (144, 56, 1), (144, 56, 2), (192, 28, 1), (192, 28, 2),
    (384, 14, 1), (576, 14, 1), (576, 14, 2), (960, 7, 1),
)  # fmt: skip
POOLS = {
    "pool max k3 s2 64x112": ("max", 64, 112, 3, 2, 1),
    "pool avg k2 s2 256x56": ("avg", 256, 56, 2, 2, 0),
}


def _named(kind: str, sizes: str, *dtype: str) -> dict[str, tuple[Any, ...]]:
    """Return products by name, such as `gemm 512` and `gemm 1x1000x512`."""
    found = {}
    for size in sizes.split():
        extents = [int(each) for each in size.split("x")]
        found[f"{kind} {size}"] = (*(extents * 3 if len(extents) == 1 else extents), *dtype)
    return found


GEMMS = _named("gemm", "512 1024 2048 4096 1x4096x4096 16x4096x4096 1x1000x512")
# Of float32, by products of bfloat16.
SPLIT_GEMMS = _named("bf16x3 gemm", "512 768 1000 1024 2048 4096 197x3072x768 768x3072x768")
HALF_GEMMS = _named(
    "fp16 gemm", "1024 1536 197x3072x768 2048 4096 16x4096x4096 512x512x8192", "float16"
)
ODD_GEMMS = {
    **_named("fp16 odd gemm", "1023 197x3071x767 1023x1025x1027 2047 197x50257x768", "float16"),
    **_named("bf16 odd gemm", "197x3071x767 333x2049x511", "bfloat16"),
}
# By operation: its shapes, of rows and columns; reductions have an extent behind them.
MAPS = {
    "softmax": [(4096, 4096), (64, 1000)],
    "log_softmax": [(4096, 4096)],
    "layer_norm": [(4096, 4096), (197, 768)],
    "rms_norm": [(4096, 4096)],
}
REDUCTIONS = {
    "sum": [(4096, 4096, 1), (1, 4096, 4096), (1, 16777216, 1)],
    "argmax": [(4096, 4096, 1), (1, 4096, 4096)],
    "mean": [(1280, 49, 1)],
}
SCANS = [(4096, 4096), (64, 1000)]
TRANSPOSES = [((4096, 4096), (1, 0)), ((12, 197, 64), (1, 0, 2)), ((1, 256, 56, 56), (0, 2, 3, 1))]


def _workload(
    name: str, of: Any, shape: Any, rival: Callable[[list[Any]], Named],
    wanted: Callable[[list[Any]], Any] | None = None,
) -> Workload:  # fmt: skip
    from autotune.target import Target

    target, estimate = Target("cuda"), getattr(of, "estimate", lambda *_: 0.0)
    return Workload(
        name, of.candidates(shape), lambda c: of.violation(shape, c, target),
        lambda c: estimate(shape, c, target), partial(of.kernel, shape),
        partial(of.default_choice, shape, target), rival, shape.flop, shape.bytes, wanted,
        TOLERANCES.get(getattr(shape, "dtype", "float32"), 2e-3),
    )  # fmt: skip


def workloads() -> Iterator[Workload]:
    """Yield all, by the kinds of their templates."""
    for kind in (_convolutions, _windows, _products, _rows, _moves):
        yield from kind()
    yield from layers(_workload)


def _convolutions() -> Iterator[Workload]:
    from autotune.templates.convolutions import conv2d_bf16x3, conv2d_cuda
    from autotune.templates.convolutions.conv2d_shape import Conv2d

    for name, (*sizes, stride, padding) in CONVS.items():
        shape = Conv2d(*sizes, (stride, stride), (padding, padding), False, False)
        rival = partial(conv_rivals, stride=stride, padding=padding)
        yield _workload(name, conv2d_cuda, shape, rival)
        yield _workload(f"bf16x3 {name}", conv2d_bf16x3, shape, rival)


def _windows() -> Iterator[Workload]:
    from autotune.templates.convolutions import window_cuda
    from autotune.templates.convolutions.window_shape import Depthwise, Pool, Window

    for layout in ("NCHW", "NHWC"):
        for channels, extent, stride in DEPTHWISE:
            window = Window((3, 3), (stride, stride), (1, 1, 1, 1))
            shape: Any = Depthwise(1, extent, extent, channels, window, layout)
            name = f"depthwise {channels}x{extent} s{stride} {layout}"
            rival = partial(depthwise_rivals, layout=layout, stride=stride, padding=1)
            yield _workload(name, window_cuda, shape, rival)
        for name, (kind, channels, extent, size, stride, padding) in POOLS.items():
            window = Window((size, size), (stride, stride), (padding,) * 4)
            shape = Pool(1, extent, extent, channels, window, layout, kind)
            rival = partial(
                pool_rivals, layout=layout, kind=kind, size=size, stride=stride, padding=padding
            )
            yield _workload(f"{name} {layout}", window_cuda, shape, rival)


def _products() -> Iterator[Workload]:
    from autotune.templates.products import gemm_bf16x3, gemm_cuda, gemm_half, gemm_padded
    from autotune.templates.products.gemm_shape import Gemm

    for name, sizes in GEMMS.items():
        yield _workload(name, gemm_cuda, Gemm(*sizes), matmul_rivals)
    for name, sizes in SPLIT_GEMMS.items():
        yield _workload(name, gemm_bf16x3, Gemm(*sizes), matmul_rivals)
    for name, sizes in HALF_GEMMS.items():
        yield _workload(name, gemm_half, Gemm(*sizes), matmul_rivals)
    for name, sizes in ODD_GEMMS.items():
        padded = gemm_padded.Padded(gemm_half)
        yield _workload(name, padded, Gemm(*sizes), padded_matmul_rivals)


def _rows() -> Iterator[Workload]:
    from autotune.templates.rows import reduce_cuda, rows_cuda
    from autotune.templates.rows.reduction_shape import Reduction
    from autotune.templates.rows.rows_shape import Rows

    for operation, every in MAPS.items():
        for size in every:
            gain, shift = operation.endswith("norm"), operation == "layer_norm"
            shape: Any = Rows(operation, *size, "float32", 1e-5, gain, shift)
            rival: Any = partial(row_rivals, operation=operation)
            yield _workload(f"{operation} {_by(size)}", rows_cuda, shape, rival)
    for operation, reductions in REDUCTIONS.items():
        for extents in reductions:
            shape, rival = Reduction(operation, *extents), partial(reduce_rivals, name=operation)
            yield _workload(f"reduce {operation} {_by(extents)}", reduce_cuda, shape, rival)


def _moves() -> Iterator[Workload]:
    from autotune.templates.data_movement import transpose_cuda
    from autotune.templates.data_movement.transpose_shape import Transpose
    from autotune.templates.rows import scan_cuda

    for size in SCANS:
        shape = scan_cuda.Scan(*size)
        yield _workload(
            f"cumsum {_by(size)}", scan_cuda, shape, partial(reduce_rivals, name="cumsum")
        )
    for extents, axes in TRANSPOSES:
        name = f"transpose {_by(extents)} {_by(axes)}"
        rival = partial(transpose_rivals, axes=axes)
        yield _workload(name, transpose_cuda, Transpose(extents, axes), rival)


def _by(extents: Sequence[int]) -> str:
    return "x".join(str(each) for each in extents)
