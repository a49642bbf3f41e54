"""PyTorch's equivalents: cuDNN, cuBLAS and its own kernels, each at its best."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

# How often benchmark mode is asked which kernel is fastest: its answers differ from time to time.
PICKS = 3
# The threads that hold picks; more than one workload has. The graphs of older ones are gone.
_THREADS: deque[ThreadPoolExecutor] = deque()
_MOST_THREADS = 32

Named = Iterator[tuple[str, Callable[[], Any]]]


def set_up(torch: Any, tf32: bool = False) -> None:
    """Let cuDNN choose by measuring all that it offers; float32 is TF32 only where ours is too."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 0  # by default the first ten
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32


def conv_rivals(
    tensors: list[Any], stride: int, padding: int, groups: int = 1, tf32: bool = False
) -> Named:
    """Yield a convolution in each layout, several times as benchmark mode picks it.

    Each is to be captured before the next is asked for.
    """
    import torch

    set_up(torch, tf32)
    for name, (a, b) in in_both_layouts(*tensors[:2]):
        for pick in range(PICKS):
            run = partial(torch.nn.functional.conv2d, a, b, None, stride, padding, groups=groups)
            yield f"cuDNN {name} {pick}", picked_anew(run)


def depthwise_rivals(tensors: list[Any], layout: str, stride: int, padding: int) -> Named:
    """Yield a depthwise convolution as `conv_rivals` does; the tensors are in ``layout``."""
    data, weight = tensors[:2]
    if layout == "NHWC":
        data, weight = data.permute(0, 3, 1, 2), weight.permute(2, 3, 0, 1)
    channels, multiplier, *taps = weight.shape
    filters = weight.reshape(channels * multiplier, 1, *taps)
    yield from conv_rivals([data, filters], stride, padding, groups=channels)
    for name, (a, b) in in_both_layouts(data, filters):
        yield f"PyTorch {name}", partial(_without_cudnn, a, b, stride, padding, channels)


def _without_cudnn(data: Any, weight: Any, stride: int, padding: int, groups: int) -> Any:
    import torch

    with torch.backends.cudnn.flags(enabled=False):
        return torch.nn.functional.conv2d(data, weight, None, stride, padding, groups=groups)


def pool_rivals(
    tensors: list[Any], layout: str, kind: str, size: int, stride: int, padding: int
) -> Named:
    """Yield pooling in each layout; the tensors are in ``layout``."""
    import torch

    images = tensors[0] if layout == "NCHW" else tensors[0].permute(0, 3, 1, 2)
    pool = getattr(torch.nn.functional, f"{kind}_pool2d")
    for name, (a,) in in_both_layouts(images):
        yield f"PyTorch {name}", lambda a=a: pool(a, size, stride, padding)


def in_both_layouts(*tensors: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    import torch

    layouts = {"NCHW": torch.contiguous_format, "channels_last": torch.channels_last}
    for name, layout in layouts.items():
        yield name, tuple(t.contiguous(memory_format=layout) for t in tensors)


def matmul_rivals(tensors: list[Any]) -> Named:
    """Yield cuBLAS and cuBLASLt, which pick by rule."""
    import torch

    set_up(torch)
    run = partial(torch.matmul, tensors[0], tensors[1], out=tensors[2])
    yield "cuBLAS", run
    yield "cuBLASLt", by_cublaslt(run)


def by_cublaslt(run: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that does the same with cuBLASLt, whose rules for few rows are better."""
    import torch

    def call() -> Any:
        before = torch.backends.cuda.preferred_blas_library()
        torch.backends.cuda.preferred_blas_library("cublaslt")
        try:
            return run()
        finally:
            torch.backends.cuda.preferred_blas_library(before)

    return call


def padded_matmul_rivals(tensors: list[Any]) -> Named:
    """Yield cuBLAS on matrices as they are, and on such whose odd extents were rounded up to 8."""
    import torch

    yield from matmul_rivals(tensors)
    (m, k), n = tensors[0].shape, tensors[1].shape[1]
    n8, k8 = -(-n // 8) * 8, -(-k // 8) * 8
    shapes = ((m, k8), (k8, n8), (m, n8))
    a, b, c = (torch.randn(shape, device="cuda").to(tensors[0].dtype) for shape in shapes)
    yield "cuBLAS padded", lambda: torch.matmul(a, b, out=c)


def row_rivals(tensors: list[Any], operation: str) -> Named:
    """Yield PyTorch's map of rows."""
    import torch

    data, *parameters = tensors[:-1]
    functional, columns = torch.nn.functional, tensors[0].shape[-1:]
    run = {
        "softmax": lambda: torch.softmax(data, 1),
        "log_softmax": lambda: torch.log_softmax(data, 1),
        "layer_norm": lambda: functional.layer_norm(data, columns, *parameters, 1e-5),
        "rms_norm": lambda: functional.rms_norm(data, columns, *parameters, 1e-5),
    }[operation]
    yield "PyTorch", run


def reduce_rivals(tensors: list[Any], name: str) -> Named:
    """Yield PyTorch's reduction, or cumulative sum, along the second axis."""
    import torch

    reduce = getattr(torch, name)
    yield "PyTorch", lambda: reduce(tensors[0], 1)


def transpose_rivals(tensors: list[Any], axes: Sequence[int]) -> Named:
    """Yield PyTorch's copy of an array with other axes."""
    yield "PyTorch", lambda: tensors[0].permute(*axes).contiguous()


def picked_anew(run: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that does the same with kernels that benchmark mode picks for it alone.

    PyTorch keeps what it picked by thread, so each such function has a thread. It must outlive
    the graphs that were captured: with a plan go the kernels that cuDNN compiled for it.
    """
    import torch

    thread = ThreadPoolExecutor(1)
    _THREADS.append(thread)
    if len(_THREADS) > _MOST_THREADS:
        _THREADS.popleft().shutdown()

    def on(stream: Any) -> Any:
        with torch.cuda.stream(stream):
            return run()

    return lambda: thread.submit(on, torch.cuda.current_stream()).result()
