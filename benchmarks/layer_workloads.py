"""Layers of networks as workloads of `templates_gpu`: products, NHWC and Winograd, attention.

Names begin with "layer ", so that ``--only "layer "`` chooses these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.rivals import Named, conv_rivals, depthwise_rivals, set_up

# m, n, k, dtype, batch, transpose_a, transpose_b, bias and GELU.
PRODUCTS = {
    "linear 197x3072x768 gelu": (197, 3072, 768, "float32", 1, False, True, True),
    "linear 197x3072x768 gelu fp16": (197, 3072, 768, "float16", 1, False, True, True),
    "linear 197x3072x768 gelu bf16": (197, 3072, 768, "bfloat16", 1, False, True, True),
    "linear 1024x4096x1024 gelu fp16": (1024, 4096, 1024, "float16", 1, False, True, True),
    "linear 2048x50257x768 fp16": (2048, 50257, 768, "float16", 1, False, True, False),
    "scores 12x197x197x64": (197, 197, 64, "float32", 12, False, True, False),
    "scores 96x512x512x64 fp16": (512, 512, 64, "float16", 96, False, True, False),
    "gradient 1024 fp16": (1024, 1024, 1024, "float16", 1, True, False, False),
    "tf32 2048": (2048, 2048, 2048, "tf32", 1, False, False, False),
    "linear 197x3072x768 gelu tf32": (197, 3072, 768, "tf32", 1, False, True, True),
    "int8 1024": (1024, 1024, 1024, "int8", 1, False, True, False),
    "int8 4096": (4096, 4096, 4096, "int8", 1, False, True, False),
    "odd 3x 257x1023x511 bf16": (257, 1023, 511, "bfloat16", 3, True, False, True),
    "odd 131x67x4099 fp16": (131, 67, 4099, "float16", 1, False, True, True),
    "odd 2x 33x77x1027 tf32": (33, 77, 1027, "tf32", 2, True, True, True),
    "odd 1x1x1 tf32": (1, 1, 1, "tf32", 1, False, False, False),
    "odd 70000x 5x3x4 int8": (5, 3, 4, "int8", 70000, False, True, False),
}
# n, k, m, dtype; with a bias.
MATVECS = {
    "dense 1x1000x512": (1000, 512, 1, "float32"),
    "dense 1x4096x4096": (4096, 4096, 1, "float32"),
    "dense 1x4096x4096 fp16": (4096, 4096, 1, "float16"),
    "dense 4x4096x4096 fp16": (4096, 4096, 4, "float16"),
    "odd dense 3x1001x517 fp16": (1001, 517, 3, "float16"),
}
# images, extent, co, ci, filter, stride, padding, dtype
NHWC = {
    "nhwc 64->64 k3 56": (1, 56, 64, 64, 3, 1, 1, "float32"),
    "nhwc 512->512 k3 7": (1, 7, 512, 512, 3, 1, 1, "float32"),
    "nhwc 256->64 k1 56": (1, 56, 64, 256, 1, 1, 0, "float32"),
    "nhwc 64->64 k3 56 tf32": (1, 56, 64, 64, 3, 1, 1, "tf32"),
    "nhwc 3->64 k7 s2 224 tf32": (1, 224, 64, 3, 7, 2, 3, "tf32"),
    "nhwc 64->64 k3 56 fp16": (1, 56, 64, 64, 3, 1, 1, "float16"),
    "nhwc 16x 128->128 k3 28 fp16": (16, 28, 128, 128, 3, 1, 1, "float16"),
    "nhwc 16x 512->2048 k1 7 fp16": (16, 7, 2048, 512, 1, 1, 0, "float16"),
    "nhwc 3->64 k7 s2 224 fp16": (1, 224, 64, 3, 7, 2, 3, "float16"),
    "odd nhwc 2x 3->7 k3 s2 13 fp16": (2, 13, 7, 3, 3, 2, 1, "float16"),
    "odd nhwc 2x 5->7 k3 s2 13 tf32": (2, 13, 7, 5, 3, 2, 1, "tf32"),
    "odd nhwc 2x 6->10 k5 13 bf16": (2, 13, 10, 6, 5, 1, 2, "bfloat16"),
}
# images, channels, extent, stride, layout, dtype: depthwise 3x3
WINDOWS = {
    f"windows {images}x {channels}x{extent} s{stride} {layout} {dtype}": (
        images, channels, extent, stride, layout, dtype
    )
    for images, dtype in ((1, "float16"), (16, "float32"), (16, "float16"))
    for channels, extent, stride in ((32, 112, 1), (96, 112, 2), (144, 56, 1), (576, 14, 1))
    for layout in ("NCHW", "NHWC")
}  # fmt: skip
# images, extent, channels, tile
WINOGRAD = {
    "winograd 4 64x56": (1, 56, 64, 4),
    "winograd 2 64x56": (1, 56, 64, 2),
    "winograd 4 16x 128x28": (16, 28, 128, 4),
    "winograd 4 16x 256x14": (16, 14, 256, 4),
    "odd winograd 4 3x 5x13": (3, 13, 5, 4),
}
# batch, heads, queries, keys, size, kv_heads, causal
ATTENTION = {
    "attention 16x1024 d64": (1, 16, 1024, 1024, 64, 16, False),
    "attention 4x16x2048 d64 causal": (4, 16, 2048, 2048, 64, 16, True),
    "attention 4x16x2048 d128 causal": (4, 16, 2048, 2048, 128, 16, True),
    "attention 32/8x2048 d128 causal": (1, 32, 2048, 2048, 128, 8, True),
    "decode 8x32/8x4096 d128": (8, 32, 1, 4096, 128, 8, False),
    "decode 1x32/8x8192 d128": (1, 32, 1, 8192, 128, 8, False),
    "odd attention 2x6/3x37x131 d80 causal": (2, 6, 37, 131, 80, 3, True),
    "odd attention 2x50x9 d64 causal": (1, 2, 50, 9, 64, 2, True),
}
Make = Callable[..., Any]


def layers(workload: Make) -> Iterator[Any]:
    """Yield all; ``workload`` makes one of a name, a family, a shape and its rivals."""
    for kind in (_products, _matvecs, _convolutions, _windows, _winograds, _attentions):
        yield from kind(workload)


def _products(workload: Make) -> Iterator[Any]:
    from autotune.templates.epilogue import Epilogue
    from autotune.templates.products import gemm_cuda, gemm_padded
    from autotune.templates.products.gemm_shape import HALVES, Gemm

    for name, (*sizes, follows) in PRODUCTS.items():
        epilogue = Epilogue(bias=follows, activation="gelu" if follows else "none")
        shape, family = Gemm(*sizes, epilogue=epilogue), gemm_cuda
        if shape.dtype != "float32":
            odd = shape.dtype in HALVES and gemm_padded.is_needed(shape)
            family = _on_tensor_cores(gemm_padded.padded(shape) if odd else shape)
            family = gemm_padded.Padded(family) if odd else family
        turned = (shape.transpose_a, shape.transpose_b)
        rivals = partial(linear_rivals, turned=turned, gelu=follows, tf32=shape.dtype == "tf32")
        yield workload(f"layer {name}", family, shape, rivals)


def _on_tensor_cores(shape: Any) -> Any:
    """Return the kernels that a Hopper GPU has for a product."""
    from autotune.templates.products import gemm_half, gemm_mma, gemm_transposed, gemm_wgmma

    from autotune.target import Target

    if not gemm_wgmma.refusal(shape):
        return gemm_half
    turned = gemm_transposed.is_needed(shape, Target("cuda -arch=sm_90"))
    return gemm_transposed if turned else gemm_mma


def _matvecs(workload: Make) -> Iterator[Any]:
    from autotune.templates.epilogue import Epilogue
    from autotune.templates.products import matvec_cuda
    from autotune.templates.products.gemm_shape import Gemm

    for name, (n, k, m, dtype) in MATVECS.items():
        shape = Gemm(m, n, k, dtype, transpose_b=True, epilogue=Epilogue(bias=True))
        rivals = partial(linear_rivals, turned=(False, True), gelu=False)
        yield workload(f"layer {name}", matvec_cuda, shape, rivals)


def _convolutions(workload: Make) -> Iterator[Any]:
    from autotune.templates.convolutions import conv2d_padded
    from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
    from autotune.templates.convolutions.window_shape import Window
    from autotune.templates.products import gemm_cuda
    from autotune.templates.products.gemm_shape import HALVES

    for name, (images, extent, co, ci, size, stride, padding, dtype) in NHWC.items():
        window = Window((size, size), (stride, stride), (padding,) * 4)
        shape = Conv2dNhwc(images, extent, extent, co, ci, window, dtype)
        rivals = partial(nhwc_rivals, stride=stride, padding=padding, tf32=dtype == "tf32")
        family = gemm_cuda if dtype == "float32" else _on_tensor_cores(shape)
        if dtype in HALVES and conv2d_padded.is_needed(shape):
            family = conv2d_padded.Padded(_on_tensor_cores(conv2d_padded.copied(shape, 1)))
        yield workload(f"layer {name}", family, shape, rivals)


def _windows(workload: Make) -> Iterator[Any]:
    from autotune.templates.convolutions import window_cuda
    from autotune.templates.convolutions.window_shape import Depthwise, Window

    for name, (images, channels, extent, stride, layout, dtype) in WINDOWS.items():
        window = Window((3, 3), (stride, stride), (1, 1, 1, 1))
        shape = Depthwise(images, extent, extent, channels, window, layout, dtype=dtype)
        rivals = partial(depthwise_rivals, layout=layout, stride=stride, padding=1)
        yield workload(f"layer {name}", window_cuda, shape, rivals)


def _winograds(workload: Make) -> Iterator[Any]:
    from autotune.templates.convolutions import winograd_cuda

    for name, (images, extent, channels, tile) in WINOGRAD.items():
        shape = winograd_cuda.Winograd(images, extent, extent, channels, channels, tile)
        yield workload(f"layer {name}", winograd_cuda, shape, winograd_rivals)


def _attentions(workload: Make) -> Iterator[Any]:
    from autotune.templates.attention import attention_mma, attention_space

    from autotune.target import Target

    for name, (*sizes, kv_heads, causal) in ATTENTION.items():
        batch, heads, queries, keys, size = sizes
        shape = attention_mma.Attention(batch, heads, kv_heads, queries, keys, size, causal)
        rivals = partial(attention_rivals, causal=causal)
        wanted = partial(attention_wanted, causal=causal)
        hopper = Target("cuda -arch=sm_90")
        family = attention_space.both_of(shape, hopper) or attention_mma
        yield workload(f"layer {name}", family, shape, rivals, wanted)


def linear_rivals(
    tensors: list[Any],
    turned: tuple[bool, bool],
    gelu: bool,
    tf32: bool = False,
    residual: bool = False,
) -> Named:
    """Yield cuBLAS through PyTorch, with what follows as PyTorch does it."""
    import torch

    set_up(torch, tf32)
    a, b, *bias = tensors[:-1]
    a = a.transpose(-1, -2) if turned[0] else a
    right = b.transpose(-1, -2) if turned[1] else b
    if a.dtype == torch.int8:
        yield "cuBLAS", lambda: torch._int_mm(a, right)
        yield "cuBLAS of floats", lambda: torch.matmul(a.half(), right.half())
        return
    if not bias:
        yield "cuBLAS", lambda: torch.matmul(a, right)
        return

    def sums() -> Any:
        return torch.addmm(bias[0], a, right) if a.dim() == 2 else torch.matmul(a, right) + bias[0]

    after = torch.nn.functional.gelu
    if residual:
        yield "cuBLAS, then addition", lambda: sums() + bias[1]
        return
    yield "cuBLAS, then GELU" if gelu else "cuBLAS", (lambda: after(sums())) if gelu else sums


def nhwc_rivals(tensors: list[Any], stride: int, padding: int, tf32: bool = False) -> Named:
    """Yield what cuDNN offers for NHWC images, in both layouts."""
    data, weight = tensors[0].permute(0, 3, 1, 2), tensors[1].permute(3, 2, 0, 1)
    yield from conv_rivals([data, weight], stride, padding, tf32=tf32)


def winograd_rivals(tensors: list[Any]) -> Named:
    """Yield what cuDNN offers for a convolution of the same shape."""
    import torch

    channels = tensors[0].shape[1]
    weight = torch.randn(channels, channels, 3, 3).to(tensors[0].device)
    yield from conv_rivals([tensors[0], weight], 1, 1)


def attention_wanted(tensors: list[Any], causal: bool) -> Any:
    """Return attention in float32, an image at a time: in numpy it would take half a minute."""
    import torch

    set_up(torch)
    q, k, v = (each.float() for each in tensors[:3])
    group, after = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    unseen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(after + 1).to(q.device)
    out = torch.empty_like(q)
    for image in range(len(q)):
        keys, values = (x[image].repeat_interleave(group, 0) for x in (k, v))
        scores = q[image] @ keys.transpose(1, 2) * q.shape[3] ** -0.5
        scores = scores.masked_fill(unseen, float("-inf")) if causal else scores
        out[image] = torch.softmax(scores, 2).nan_to_num() @ values
    return out


def attention_rivals(tensors: list[Any], causal: bool, mask: Any = None) -> Named:
    """Yield PyTorch's fused attention by each of its libraries; a mask in two forms."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = tensors[:3]
    backends = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "cuDNN": SDPBackend.CUDNN_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
    }
    options: dict[str, Any] = {"is_causal": causal, "enable_gqa": q.shape[1] != k.shape[1]}

    def run(backend: Any, mask: Any) -> Any:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, **options)

    masks = {"": mask}
    if mask is not None and mask.shape[-1] % 16:
        # PyTorch copies a mask whose rows do not begin at multiples of 16 elements.
        columns = mask.shape[-1]
        masks[", aligned mask"] = torch.nn.functional.pad(mask, (0, -columns % 16))[..., :columns]
    for name, backend in backends.items():
        for form, each in masks.items():
            yield f"PyTorch {name}{form}", partial(run, backend, each)
