"""Layers that programs have again and again, as tasks: those of known networks and usual sizes.

What tuning takes is timed with them (`tuning.layers`), and records of those that gain by it ship
(`tune_pack`). All are of the CUDA templates; by name, such as ``"conv 64->64 k3 s1 56"``.
"""

from __future__ import annotations

Layers = dict[str, tuple[str, tuple[object, ...]]]

# Convolutions at batch 1, of ResNet-18 and then of ResNet-50: h = w, output and input
# channels, kernel, stride, padding.
RESNET_18 = (
    (224, 64, 3, 7, 2, 3), (56, 64, 64, 3, 1, 1), (56, 128, 64, 3, 2, 1), (56, 128, 64, 1, 2, 0),
    (28, 128, 128, 3, 1, 1), (28, 256, 128, 3, 2, 1), (28, 256, 128, 1, 2, 0),
    (14, 256, 256, 3, 1, 1), (14, 512, 256, 3, 2, 1), (14, 512, 256, 1, 2, 0),
    (7, 512, 512, 3, 1, 1),
)  # fmt: skip
RESNET_50 = (
    (56, 64, 64, 1, 1, 0), (56, 256, 64, 1, 1, 0), (56, 64, 256, 1, 1, 0), (56, 128, 256, 1, 1, 0),
    (56, 128, 128, 3, 2, 1), (28, 512, 128, 1, 1, 0), (56, 512, 256, 1, 2, 0),
    (28, 128, 512, 1, 1, 0), (28, 256, 512, 1, 1, 0), (28, 256, 256, 3, 2, 1),
    (14, 1024, 256, 1, 1, 0), (28, 1024, 512, 1, 2, 0), (14, 256, 1024, 1, 1, 0),
    (14, 512, 1024, 1, 1, 0), (14, 512, 512, 3, 2, 1), (7, 2048, 512, 1, 1, 0),
    (14, 2048, 1024, 1, 2, 0), (7, 512, 2048, 1, 1, 0),
)  # fmt: skip
# Of MobileNet-V2: channels, h = w, stride.
DEPTHWISE = (
    (32, 112, 1), (96, 112, 2), (144, 56, 1), (144, 56, 2), (192, 28, 1), (192, 28, 2),
    (384, 14, 1), (576, 14, 1), (576, 14, 2), (960, 7, 1),
)  # fmt: skip
# Rows, columns and products a sum. Of float32: squares, few rows, layers of BERT and ViT.
GEMMS = (
    (16, 4096, 4096), (1, 4096, 4096), (1, 1000, 512), (512, 512, 512), (1024, 1024, 1024),
    (2048, 2048, 2048), (4096, 4096, 4096), (197, 768, 768), (197, 3072, 768), (197, 768, 3072),
    (128, 768, 768), (128, 3072, 768), (128, 768, 3072), (384, 768, 768), (384, 3072, 768),
    (384, 768, 3072), (768, 3072, 768),
)  # fmt: skip
# Of float16: squares, long sums, odd sizes, few rows.
HALF_GEMMS = (
    (512, 512, 512), (768, 768, 768), (1000, 1000, 1000), (1024, 1024, 1024), (1536, 1536, 1536),
    (2048, 2048, 2048), (4096, 4096, 4096), (197, 3072, 768), (197, 768, 3072), (128, 768, 768),
    (512, 512, 8192), (1024, 1024, 8192), (197, 3071, 767), (1023, 1025, 1027),
    *((rows, *sizes) for rows in (8, 16, 32)
      for sizes in ((4096, 4096), (11008, 4096), (4096, 11008))),
)  # fmt: skip
# Linear layers of float16 as networks ask for them, with the weights as networks have them, and
# with what is joined to them: rows (BERT 128 and 384, ViT 197, GPT-2 1024), columns, products a
# sum, and whether there is a bias, the activation, and whether there is a residual.
LINEARS = tuple(
    (rows, *layer)
    for rows in (128, 197, 384, 1024)
    for layer in (
        (2304, 768, True, "none", False), (768, 768, True, "none", True),
        (3072, 768, True, "gelu", False), (768, 3072, True, "none", True),
    )
)  # fmt: skip
# Those of few rows, as language models have them when they write a word for each of some texts.
FEW_ROWS = tuple(
    (rows, *sizes, False, "none", False)
    for rows in (8, 16, 32)
    for sizes in (
        (4096, 4096), (11008, 4096), (4096, 11008), (768, 3072), (3072, 768), (1024, 4096),
    )
)  # fmt: skip
MAPS = {
    "softmax": ((4096, 4096), (1024, 1024), (64, 1000), (1536, 128), (2364, 197)),
    "layer norm": ((4096, 4096), (197, 768), (1024, 768), (384, 1024)),
}
# Sums of rows and columns, one place for many sums: outer, depth, inner.
REDUCTIONS = (
    ("sum", 4096, 4096, 1), ("sum", 1, 4096, 4096), ("sum", 1, 16777216, 1),
    ("argmax", 4096, 4096, 1), ("mean", 2048, 49, 1),
)  # fmt: skip
TRANSPOSES = (((4096, 4096), (1, 0)), ((12, 197, 64), (1, 0, 2)), ((1, 256, 56, 56), (0, 2, 3, 1)))
# Heads, queries, keys, size of a head; whether causal.
ATTENTION = (
    (16, 1024, 1024, 64, False), (12, 128, 128, 64, False), (12, 197, 197, 64, False),
    (12, 1024, 1024, 64, True), (32, 1, 1024, 128, False),
)  # fmt: skip


def layers() -> Layers:
    """Return tasks and their arguments by name."""
    return {**_convolutions(), **_products(), **_rows(), **_moves()}


def _convolutions() -> Layers:
    found: Layers = {}
    for size, outputs, inputs, kernel, stride, padding in (*RESNET_18, *RESNET_50):
        found[f"conv {inputs}->{outputs} k{kernel} s{stride} {size}"] = (
            "conv2d_nchw.cuda",
            (1, size, size, outputs, inputs, kernel, kernel, stride, padding),
        )
    for channels, size, stride in DEPTHWISE:
        found[f"depthwise {channels}x{size} s{stride}"] = (
            "depthwise_conv2d.cuda",
            (1, size, size, channels, 1, 3, 3, stride, 1),
        )
    return found


def _products() -> Layers:
    found: Layers = {f"gemm {by(sizes)}": ("gemm_nn.cuda", sizes) for sizes in GEMMS}
    for sizes in HALF_GEMMS:
        found[f"fp16 gemm {by(sizes)}"] = ("gemm_nn.cuda", (*sizes, "float16"))
    for *sizes, bias, activation, residual in (*LINEARS, *FEW_ROWS):
        follows = [" bias"] * bias + [f" {activation}"] * (activation != "none")
        name = f"fp16 linear {by(sizes)}{''.join(follows)}{' residual' * residual}"
        rest = (bias, activation, residual, False)
        found[name] = ("gemm.cuda", (*sizes, "float16", 1, False, True, *rest))
    for heads, queries, keys, size, causal in ATTENTION:
        name = f"attention {by((heads, queries, keys, size))}{' causal' if causal else ''}"
        found[name] = ("attention.cuda", (1, heads, queries, keys, size, 0, causal))
    return found


def _rows() -> Layers:
    found: Layers = {}
    for operation, every in MAPS.items():
        for sizes in every:
            task = f"{operation.replace(' ', '_')}.cuda"
            found[f"{operation} {by(sizes)}"] = (task, sizes)
    for operation, *sizes in REDUCTIONS:
        found[f"{operation} {by(sizes)}"] = ("reduce.cuda", (operation, *sizes))
    return found


def _moves() -> Layers:
    found: Layers = {"cumulative sum 4096x4096": ("cumsum.cuda", (4096, 4096))}
    for extents, axes in TRANSPOSES:
        found[f"transpose {by(extents)} {by(axes)}"] = ("transpose.cuda", (extents, axes))
    return found


def by(extents: object) -> str:
    """Return extents as ``"4096x64"``."""
    return "x".join(str(each) for each in extents)  # type: ignore[attr-defined]
