"""Workloads of the auto-scheduler: definitions, and what PyTorch calls for the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from autotune import te, topi
from benchmarks.auto_scheduler.case import Case, Tensors, of
from benchmarks.auto_scheduler.transformers import attention, gated
from benchmarks.rivals import Named, conv_rivals, in_both_layouts, picked_anew, set_up


@dataclass(frozen=True)
class Layer:
    """A square convolution: sizes, and whether bias and ReLU follow; float16 is summed wide."""

    channels: int
    size: int
    filters: int
    kernel: int
    stride: int = 1
    bias: bool = False
    relu: bool = False
    nhwc: bool = False
    batch: int = 1
    dtype: str = "float32"
    groups: int = 1
    tf32: bool = False

    @property
    def padding(self) -> int:
        """Rows and columns of zeros around the data."""
        return self.kernel // 2

    def graph(self) -> Tensors:
        """Return the inputs and the output."""
        n, c, s, f, k = self.batch, self.channels, self.size, self.filters, self.kernel
        seen = c // self.groups
        shapes = [(n, s, s, c), (k, k, c, f)] if self.nhwc else [(n, c, s, s), (f, seen, k, k)]
        shapes += [(1, f, 1, 1)] if self.bias else []
        return of(self.compute, *shapes, dtype=self.dtype)

    def compute(self, data: te.Tensor, weight: te.Tensor, *bias: te.Tensor) -> te.Tensor:
        """Return the output of some inputs."""
        given = data, weight, self.stride, self.padding
        if self.groups > 1:
            out = topi.nn.group_conv2d_nchw(*given, 1, self.groups, out_dtype="float32")
        else:
            convolve = topi.nn.conv2d_nhwc if self.nhwc else topi.nn.conv2d_nchw
            out = convolve(*given, out_dtype="float32", tf32=self.tf32)
        for each in bias:
            out = out + each.astype("float32")
        out = topi.nn.relu(out) if self.relu else out
        return out if self.dtype == "float32" else topi.cast(out, self.dtype)

    def template(self) -> tuple[Any, ...]:
        """Return the arguments of `templates.source.conv2d_nchw_cpu`; none of another layout."""
        size, kernel, step = self.size, self.kernel, self.stride
        shape = (1, size, size, self.filters, self.channels, kernel, kernel, step, self.padding)
        plain = self.dtype == "float32" and not self.tf32
        fits = not self.nhwc and self.batch == 1 and plain
        return (*shape, self.bias, self.relu) if fits else ()

    def library(self, arrays: list[Any]) -> Named:
        """Yield cuDNN in both layouts, fused with what follows where PyTorch offers that."""
        import torch

        set_up(torch, self.tf32)
        data, weight = arrays[:2]
        if self.nhwc:
            data, weight = data.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1)
        bias = arrays[2].reshape(-1) if self.bias else None
        for name, (a, b) in in_both_layouts(data, weight):
            yield f"cuDNN {name}", picked_anew(partial(self._separate, a, b, bias))
            if self.relu:
                yield f"cuDNN {name} fused", picked_anew(partial(self._fused, a, b, bias))

    def _separate(self, data: Any, weight: Any, bias: Any) -> Any:
        import torch

        sizes = self.stride, self.padding, 1, self.groups
        out = torch.nn.functional.conv2d(data, weight, bias, *sizes)
        return torch.relu_(out) if self.relu else out

    def _fused(self, data: Any, weight: Any, bias: Any) -> Any:
        import torch

        pair = [self.stride] * 2, [self.padding] * 2, [1, 1]
        return torch.cudnn_convolution_relu(data, weight, bias, *pair, self.groups)


def layer_norm(x: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
    """Normalise the rows of a matrix."""
    rows, width = (int(n) for n in x.shape)
    k = te.reduce_axis((0, width), "k")
    total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), "total")
    l = te.reduce_axis((0, width), "l")  # noqa: E741
    squares = te.compute((rows,), lambda i: te.sum(x[i, l] * x[i, l], axis=l), "squares")

    def value(i: Any, j: Any) -> Any:
        mean = total[i] * (1.0 / width)
        variance = squares[i] * (1.0 / width) - mean * mean
        return (x[i, j] - mean) * te.rsqrt(variance + 1e-5) * gamma[j] + beta[j]

    return te.compute((rows, width), value, "layer_norm")


def sum_of(*over: int) -> Callable[[te.Tensor], te.Tensor]:
    """Return the sum over some dimensions of an array."""

    def compute(x: te.Tensor) -> te.Tensor:
        steps = {at: te.reduce_axis((0, x.shape[at]), f"k{at}") for at in over}
        kept = [at for at in range(len(x.shape)) if at not in over]

        def total(*places: Any) -> Any:
            index = {**steps, **dict(zip(kept, places, strict=True))}
            return te.sum(x(*[index[at] for at in range(len(x.shape))]), axis=list(steps.values()))

        return te.compute(tuple([x.shape[at] for at in kept]), total, "total")

    return compute


def batch_norm(x: te.Tensor) -> te.Tensor:
    """Normalise the channels of images by their own mean and variance, as in training."""
    total = sum_of(0, 2, 3)(x)
    squares = sum_of(0, 2, 3)(te.compute(x.shape, lambda *i: x(*i) * x(*i), "squared"))
    count = x.shape[0] * x.shape[2] * x.shape[3]

    def value(n: Any, c: Any, h: Any, w: Any) -> Any:
        mean = total[c] * (1.0 / count)
        variance = squares[c] * (1.0 / count) - mean * mean
        return (x[n, c, h, w] - mean) * te.rsqrt(variance + 1e-5)

    return te.compute(x.shape, value, "batch_norm")


def convolution(*sizes: int, **rest: Any) -> Case:
    """Return the case of a layer."""
    layer = Layer(*sizes, **rest)
    return Case(layer.graph, layer.library, layer.template())


def half_convolution(
    *sizes: int, batch: int = 1, nhwc: bool = True, groups: int = 1, dtype: str = "float16"
) -> Case:
    """Return the case of a layer of 16-bit floats, summed in float32, with a ReLU."""
    return convolution(*sizes, relu=True, nhwc=nhwc, batch=batch, dtype=dtype, groups=groups)


def product(m: int, n: int, k: int) -> Case:
    """Return the case of a matrix product."""
    return Case(lambda: of(topi.matmul, (m, k), (k, n)), _matmul)


def half_product(m: int, n: int = 0, depth: int = 0) -> Case:
    """Return the case of a product of float16, summed in float32; square unless said otherwise."""
    n, depth = n or m, depth or m

    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, depth), "k")

        def total(i: Any, j: Any) -> Any:
            return te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k)

        sums = te.compute((m, n), total, "sums")
        return te.compute((m, n), lambda i, j: sums[i, j].astype("float16"), "half")

    return Case(lambda: of(compute, (m, depth), (depth, n), dtype="float16"), _matmul)


def tf32_product(n: int, turned: bool = False, depth: int = 0) -> Case:
    """Return the case of a product of float32 as TF32; the second may be stored [n, k]."""
    depth = depth or n
    compute = partial(topi.nn.matmul, transpose_b=turned, tf32=True)
    library = partial(_matmul, tf32=True, turned=turned)
    right = (n, depth) if turned else (depth, n)
    return Case(lambda: of(compute, (n, depth), right), library)


def _matmul(arrays: list[Any], tf32: bool = False, turned: bool = False) -> Named:
    import torch

    set_up(torch, tf32)
    right = arrays[1].t() if turned else arrays[1]
    yield "cuBLAS", lambda: torch.matmul(arrays[0], right, out=arrays[-1])


def _batch_matmul(arrays: list[Any]) -> Named:
    import torch

    set_up(torch)
    other = arrays[1].transpose(1, 2)
    yield "cuBLAS", lambda: torch.bmm(arrays[0], other, out=arrays[-1])


def _of_torch(call: Callable[..., Any]) -> Callable[[list[Any]], Named]:
    def library(arrays: list[Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
        import torch

        yield "PyTorch", lambda: call(torch, *arrays[:-1])

    return library


def _depthwise(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    return topi.nn.depthwise_conv2d_nchw(x, w, 1, 1)


def _depthwise_library(arrays: list[Any]) -> Named:
    yield from conv_rivals(arrays[:2], 1, 1, groups=arrays[0].shape[1])


def transposed(
    channels: int, size: int, filters: int, kernel: int, batch: int = 1, dtype: str = "float32"
) -> Case:
    """Return the case of a transposed convolution of stride 2 that doubles images, with a ReLU."""
    padding, more = (kernel - 1) // 2, kernel % 2

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        out = topi.nn.conv2d_transpose_nchw(x, w, (2, 2), padding, "float32", (more, more))
        out = topi.nn.relu(out)
        return out if dtype == "float32" else topi.cast(out, dtype)

    def library(arrays: list[Any]) -> Named:
        import torch

        set_up(torch)
        call = torch.nn.functional.conv_transpose2d
        for name, (a, b) in in_both_layouts(*arrays[:2]):
            run = partial(call, a, b, None, 2, padding, more)
            yield f"cuDNN {name}", picked_anew(lambda run=run: torch.relu_(run()))
            yield f"cuDNN {name} without ReLU", picked_anew(run)

    shapes = (batch, channels, size, size), (channels, filters, kernel, kernel)
    return Case(lambda: of(compute, *shapes, dtype=dtype), library)


def _pool(x: te.Tensor) -> te.Tensor:
    return topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max")


# The convolutions of ResNet-18, batch 1: channels, size, filters, kernel, stride.
RESNET18 = (
    (3, 224, 64, 7, 2), (64, 56, 64, 3, 1), (64, 56, 128, 3, 2), (64, 56, 128, 1, 2),
    (128, 28, 128, 3, 1), (128, 28, 256, 3, 2), (128, 28, 256, 1, 2), (256, 14, 256, 3, 1),
    (256, 14, 512, 3, 2), (256, 14, 512, 1, 2), (512, 7, 512, 3, 1),
)  # fmt: skip

CASES: dict[str, Case] = {
    "tutorial": convolution(512, 7, 512, 3, bias=True, relu=True),
    "conv64": convolution(64, 56, 64, 3, bias=True, relu=True),
    "conv128_nhwc": convolution(128, 28, 128, 3, relu=True, nhwc=True),
    "conv1x1": convolution(256, 56, 64, 1, bias=True, relu=True),
    "depthwise144": Case(
        lambda: of(_depthwise, (1, 144, 56, 56), (144, 1, 3, 3)), _depthwise_library
    ),
    "softmax4096": Case(
        lambda: of(topi.nn.softmax, (4096, 4096)), _of_torch(lambda t, x: t.softmax(x, 1))
    ),
    "gemm512": product(512, 512, 512),
    "gemm1024": product(1024, 1024, 1024),
    "gemm2048": product(2048, 2048, 2048),
    "gemm4096": product(4096, 4096, 4096),
    "gemm16": product(16, 4096, 4096),
    "gemm1024_half": half_product(1024),
    "gemm2048_half": half_product(2048),
    "gemm4096_half": half_product(4096),
    "gemm_short_half": half_product(8192, 4096, 256),
    "gemm1000_half": half_product(2048, 2048, 1000),
    "gemm197_half": half_product(197, 3072, 768),
    # As `topi.nn.matmul` defines it: with sums in float16.
    "gemm1024_half_sums": Case(
        lambda: of(topi.nn.matmul, (1024, 1024), (1024, 1024), dtype="float16"), _matmul
    ),
    # Of models of 1 and of 7 billion parameters.
    "swiglu2048": gated(512, 5632, 2048),
    "swiglu4096": gated(2048, 11008, 4096),
    "gemm1024_tf32": tf32_product(1024),
    "gemm2048_tf32": tf32_product(2048),
    "gemm4096_tf32": tf32_product(4096),
    "gemm2048_tf32_turned": tf32_product(2048, turned=True),
    "gemm4096_tf32_turned": tf32_product(4096, turned=True),
    # Of a depth that is no multiple of a tile's.
    "gemm1000_tf32_turned": tf32_product(2048, turned=True, depth=1000),
    "attention128": attention(96, 128, 64),
    "attention256": attention(48, 256, 64),
    "attention512": attention(16, 512, 64),
    "attention1024": attention(16, 1024, 64),
    "attention2048": attention(16, 2048, 64),
    "attention4096": attention(8, 4096, 64),
    "attention2048_causal": attention(16, 2048, 64, causal=True),
    "attention2048_wide": attention(16, 2048, 128),
    # Of CLIP, of ViT-B/16 at 224 and 384, of Whisper and its decoder, and of Llama 3.
    "attention77": attention(96, 77, 64, causal=True),
    "attention197": attention(96, 197, 64),
    "attention577": attention(48, 577, 64),
    "attention1500": attention(16, 1500, 64),
    "attention1500_of_448": attention(16, 448, 64, keys=1500),
    "attention1024_shared": attention(32, 1024, 128, causal=True, shared=4),
    # Of Stable Diffusion, and of Phi-3.
    "attention1024_80": attention(16, 1024, 80),
    "attention1024_40": attention(16, 1024, 40),
    "attention1024_96": attention(16, 1024, 96, causal=True),
    "attention512_32": attention(16, 512, 32),
    # The next multiples of 64.
    "attention640": attention(48, 640, 64),
    "attention1536": attention(16, 1536, 64),
    "attention256_96": attention(96, 256, 64),
    "conv64_half": half_convolution(64, 56, 64, 3),
    "conv128_half": half_convolution(128, 28, 128, 3, batch=16),
    "conv1x1_half": half_convolution(256, 56, 64, 1),
    "conv_stride_half": half_convolution(128, 28, 256, 3, 2, batch=16),
    "conv256_half": half_convolution(256, 14, 256, 3),
    "conv512_half": half_convolution(512, 7, 512, 3),
    "conv128_tf32": convolution(128, 28, 128, 3, relu=True, nhwc=True, batch=16, tf32=True),
    "stem_half": half_convolution(3, 224, 64, 7, 2, batch=8),
    "conv64_half_nchw": half_convolution(64, 56, 64, 3, nhwc=False),
    "conv128_half_nchw": half_convolution(128, 28, 128, 3, batch=16, nhwc=False),
    "conv256_half_nchw": half_convolution(256, 14, 256, 3, nhwc=False),
    "conv512_half_nchw": half_convolution(512, 7, 512, 3, batch=16, nhwc=False),
    # Of RegNetX-16GF and of ResNeXt-101 32x8d.
    "groups4_half": half_convolution(512, 28, 512, 3, batch=8, nhwc=False, groups=4),
    "groups32_half": half_convolution(1024, 14, 1024, 3, batch=8, nhwc=False, groups=32),
    "groups32_bf16": half_convolution(
        1024, 14, 1024, 3, batch=8, nhwc=False, groups=32, dtype="bfloat16"
    ),
    "batch_matmul": Case(
        lambda: of(topi.batch_matmul, (12, 512, 64), (12, 512, 64)), _batch_matmul
    ),
    "layer_norm": Case(
        lambda: of(layer_norm, (4096, 1024), (1024,), (1024,)),
        _of_torch(lambda t, x, g, b: t.nn.functional.layer_norm(x, (1024,), g, b, 1e-5)),
    ),
    "transpose": Case(
        lambda: of(topi.transpose, (4096, 4096)), _of_torch(lambda t, x: x.t().contiguous())
    ),
    "max_pool": Case(
        lambda: of(_pool, (1, 64, 112, 112)),
        _of_torch(lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1)),
    ),
}
for _nhwc in (False, True):
    for _c, _s, _f, _k, _stride in RESNET18:
        _name = f"r18_{_c}_{_s}_{_f}_{_k}_{_stride}" + ("_nhwc" if _nhwc else "")
        CASES[_name] = convolution(_c, _s, _f, _k, _stride, nhwc=_nhwc)
CASES |= {
    # Of DCGAN, U-Net, and a decoder with filters of 3x3.
    "transposed4": transposed(256, 16, 128, 4, batch=16),
    "transposed2": transposed(128, 64, 64, 2),
    "transposed3": transposed(128, 28, 64, 3),
    "transposed4_half": transposed(256, 16, 128, 4, batch=16, dtype="float16"),
    "sum": Case(lambda: of(sum_of(0, 1), (2048, 2048)), _of_torch(lambda t, x: x.sum())),
    "column_sums": Case(lambda: of(sum_of(0), (8192, 1024)), _of_torch(lambda t, x: x.sum(0))),
    "batch_norm": Case(
        lambda: of(batch_norm, (32, 64, 56, 56)),
        _of_torch(lambda t, x: t.nn.functional.batch_norm(x, None, None, training=True)),
    ),
}
# Those for which the project promises figures; the rest are layers of ResNet-18.
FIRST = tuple(name for name in CASES if not name.startswith("r18"))
_LONG = {"gemm2048", "gemm4096"}
# Those that a CPU runs in some milliseconds, layers of both layouts among them.
THIRTY = tuple(
    name for name in CASES if "half" not in name and "tf32" not in name and name not in _LONG
)[:30]
