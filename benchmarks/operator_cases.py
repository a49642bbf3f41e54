"""Operators of networks that no other benchmark times, as `operators` calls them by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Extents = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """An operator on arrays, and PyTorch's.

    Attributes:
        group: by which a summary groups cases.
        operator: its name.
        inputs: shape and type of each.
        run: PyTorch's, of the inputs.
        attributes: of the operator.
        result: type of results; that of PyTorch's if it is empty.
    """

    group: str
    operator: str
    inputs: tuple[tuple[Extents, str], ...]
    run: Callable[..., Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    result: str = ""

    @property
    def name(self) -> str:
        """The call in short."""
        shapes = ", ".join("x".join(map(str, shape)) for shape, _ in self.inputs)
        options = "".join(f", {name}={value}" for name, value in self.attributes.items())
        return f"{self.operator}({shapes}{options}) {self.inputs[0][1]}"


def reductions() -> Iterator[Case]:
    """Yield reductions along axes that are no neighbours, and of elements of eight bytes."""
    import torch

    def reduced(group: str, name: str, shape: Extents, axes: Extents, dtype: str) -> Case:
        function = getattr(torch, {"max": "amax", "min": "amin"}.get(name, name))
        over: Any = axes[0] if name == "argmax" else axes
        result = "int32" if name == "argmax" else ""
        return Case(
            group, name, ((shape, dtype),), lambda x: function(x, over), {"axes": axes}, result
        )

    for name, shape, axes, dtype in (
        ("sum", (32, 64, 56, 56), (0, 2, 3), "float32"),
        ("mean", (32, 64, 56, 56), (0, 2, 3), "float16"),
        ("mean", (8, 256, 14, 14), (0, 2, 3), "float32"),
        ("max", (8, 512, 128, 64), (0, 2), "float32"),
        ("sum", (16, 3, 224, 224), (1, 3), "float32"),
        ("sum", (32, 197, 12, 64), (1, 3), "float16"),
        ("mean", (64, 49, 33, 70), (0, 2), "float32"),
        ("min", (4, 1000, 3, 1001), (0, 2), "float32"),
        ("sum", (4, 16, 8, 32, 16), (0, 2, 4), "float32"),
    ):
        yield reduced("reductions, axes apart", name, shape, axes, dtype)
    for dtype in ("int64", "float64"):
        yield reduced("reductions, 64 bits", "sum", (4096, 4096), (1,), dtype)
        yield reduced("reductions, 64 bits", "sum", (4096, 4096), (0,), dtype)
        yield reduced("reductions, 64 bits", "max", (100_000, 40), (1,), dtype)
        yield reduced("reductions, 64 bits", "argmax", (512, 30_000), (1,), dtype)
    yield reduced("reductions, 64 bits", "mean", (4096, 2048), (1,), "float64")
    yield reduced("reductions, 64 bits", "sum", (10_000_000,), (0,), "int64")


def softmax() -> Iterator[Case]:
    """Yield log-softmax along a middle axis."""
    import torch

    for shape, axis, dtype in (
        ((8, 21, 512, 512), 1, "float32"), ((16, 1000, 49), 1, "float16"),
        ((64, 80, 8400), 1, "float32"), ((4096, 1024), 0, "float32"),
        ((2, 5000, 33), 1, "bfloat16"), ((1, 19, 1024, 2048), 1, "float32"),
    ):  # fmt: skip
        yield Case(
            "log-softmax, middle axis", "nn.log_softmax", ((shape, dtype),),
            lambda x, axis=axis: torch.log_softmax(x, axis), {"axis_of_sum": axis},
        )  # fmt: skip


def prefix_sums() -> Iterator[Case]:
    """Yield prefix sums along any axis."""
    import torch

    for shape, axis, dtype in (
        ((4096, 1024), 0, "float32"), ((64, 1000, 256), 1, "float32"), ((30_000, 8), 0, "float32"),
        ((512, 4096), 0, "float16"), ((1024, 4096), 1, "int64"), ((1024, 4096), 1, "float64"),
        ((4096, 64), 0, "int64"), ((2_000_000,), 0, "int64"), ((256, 5000), 1, "int32"),
        ((8, 2048, 768), 1, "float16"),
    ):  # fmt: skip
        yield Case(
            "prefix sums", "cumsum", ((shape, dtype),),
            lambda x, axis=axis: torch.cumsum(x, axis, dtype=x.dtype), {"along": axis},
        )  # fmt: skip


def lookups() -> Iterator[Case]:
    """Yield rows, and other slices, by index."""
    import torch

    for table, places, axis, dtype in (
        ((50_257, 768), (8, 1024), 0, "float16"), ((1_000_000, 64), (65_536,), 0, "float32"),
        ((1_000_000, 17), (65_536,), 0, "float32"), ((2_000_000, 128), (500,), 0, "float16"),
        ((64, 1000, 128), (50,), 1, "float32"), ((512, 5000), (300,), 1, "float32"),
        ((100_000, 1), (1_000_000,), 0, "float32"),
    ):  # fmt: skip

        def taken(x: Any, at: Any, axis: int = axis) -> Any:
            shape = (*x.shape[:axis], *at.shape, *x.shape[axis + 1 :])
            return torch.index_select(x, axis, at.reshape(-1)).reshape(shape)

        inputs = ((table, dtype), (places, "int64"))
        yield Case("lookups", "take", inputs, taken, {"along": axis})


def pooling() -> Iterator[Case]:
    """Yield pooling with odd and large windows, and with incomplete ones."""
    import torch

    functional = torch.nn.functional
    for kind, shape, size, stride, padding, dtype, layout, ceil in (
        ("max", (8, 64, 113, 113), 3, 2, 0, "float32", "NCHW", True),
        ("max", (8, 512, 20, 20), 5, 1, 2, "float16", "NCHW", False),
        ("max", (1, 512, 20, 20), 13, 1, 6, "float32", "NCHW", False),
        ("max", (8, 20, 20, 512), 13, 1, 6, "float16", "NHWC", False),
        ("avg", (8, 256, 57, 57), 3, 2, 1, "float32", "NCHW", True),
        ("avg", (4, 128, 61, 61), 7, 1, 3, "float32", "NCHW", False),
        ("avg", (16, 512, 14, 14), 7, 7, 0, "float16", "NCHW", False),
        ("max", (1, 128, 256, 256), 2, 2, 0, "float16", "NCHW", False),
    ):
        function = getattr(functional, f"{kind}_pool2d")
        options = {"count_include_pad": False} if kind == "avg" else {}
        options |= {"ceil_mode": ceil}

        def pooled(
            x: Any, function: Any = function, layout: str = layout, options: Any = options,
            numbers: Any = (size, stride, padding),
        ) -> Any:  # fmt: skip
            images = x.permute(0, 3, 1, 2) if layout == "NHWC" else x
            out = function(images, *numbers, **options)
            return out.permute(0, 2, 3, 1) if layout == "NHWC" else out

        attributes = {
            "pool_size": (size, size), "strides": (stride, stride), "padding": (padding, padding),
            "layout": layout, "ceil_mode": ceil,
        }  # fmt: skip
        yield Case("pooling", f"nn.{kind}_pool2d", ((shape, dtype),), pooled, attributes)


def global_pooling() -> Iterator[Case]:
    """Yield pooling of whole images."""
    import torch

    for layout, shape in (
        ("NCHW", (8, 2048, 7, 7)), ("NHWC", (8, 7, 7, 2048)), ("NCHW", (1, 1280, 7, 7)),
        ("NHWC", (64, 14, 14, 320)),
    ):  # fmt: skip
        for kind, dtype, name in (("avg", "float16", "mean"), ("max", "float32", "amax")):
            function, axes = getattr(torch, name), (2, 3) if layout == "NCHW" else (1, 2)
            yield Case(
                "global pooling", f"nn.global_{kind}_pool2d", ((shape, dtype),),
                lambda x, function=function, axes=axes: function(x, axes, keepdim=True),
                {"layout": layout},
            )  # fmt: skip


def norms() -> Iterator[Case]:
    """Yield norms of few groups, and of channels that are not the last axis."""
    import torch

    functional = torch.nn.functional
    for shape, groups, dtype in (
        ((1, 512, 128, 128), 1, "float32"), ((2, 320, 64, 64), 2, "float16"),
        ((1, 64, 256, 256), 2, "float16"), ((16, 32, 32, 32), 1, "float32"),
    ):  # fmt: skip
        yield Case(
            "norms", "nn.group_norm", ((shape, dtype), (shape[1:2], dtype), (shape[1:2], dtype)),
            lambda x, a, b, groups=groups: functional.group_norm(x, groups, a, b, 1e-5),
            {"num_groups": groups},
        )  # fmt: skip
    for shape, dtype in (((8, 96, 56, 56), "float32"), ((4, 384, 14, 14), "float16")):

        def of_channels(x: Any, a: Any, b: Any) -> Any:
            last = functional.layer_norm(x.permute(0, 2, 3, 1), x.shape[1:2], a, b, 1e-5)
            return last.permute(0, 3, 1, 2).contiguous()

        yield Case(
            "norms", "nn.layer_norm", ((shape, dtype), (shape[1:2], dtype), (shape[1:2], dtype)),
            of_channels, {"axis_of_norm": 1},
        )  # fmt: skip


def broadcasts() -> Iterator[Case]:
    """Yield operators of two arrays, and of other types than the template's."""
    import torch

    for name, function, left, right, dtype in (
        ("add", torch.add, (64, 1, 56, 1), (1, 128, 1, 56), "float32"),
        ("add", torch.add, (8, 16, 512, 512), (8, 1, 1, 512), "float16"),
        ("multiply", torch.mul, (8, 512, 28, 28), (8, 512, 1, 1), "float32"),
        ("multiply", torch.mul, (8, 512, 7, 7), (8, 512, 1, 1), "float16"),
        ("add", torch.add, (3, 5, 7, 11, 13, 17), (3, 1, 7, 1, 13, 1), "float32"),
        ("add", torch.add, (2000, 1), (1, 3001), "float32"),
        ("add", torch.add, (2000, 3001), (3001,), "float64"),
        ("add", torch.add, (2000, 3001), (2000, 3001), "int64"),
        ("add", torch.add, (4096, 4096), (4096, 4096), "int32"),
        ("multiply", torch.mul, (4096, 4096), (4096, 4096), "float64"),
    ):
        yield Case("broadcast", name, ((left, dtype), (right, dtype)), function)


def maps() -> Iterator[Case]:
    """Yield activations, and what changes types."""
    import torch

    functional = torch.nn.functional
    yield Case("activations", "nn.gelu", (((4096, 3072), "float16"),), functional.gelu)
    yield Case(
        "activations", "nn.gelu", (((8192, 3072), "bfloat16"),),
        lambda x: functional.gelu(x, approximate="tanh"), {"approximate": "tanh"},
    )  # fmt: skip
    yield Case(
        "activations", "nn.prelu", (((32, 64, 56, 56), "float32"), ((64,), "float32")),
        functional.prelu, {"axis_of_slope": 1},
    )  # fmt: skip
    yield Case(
        "activations", "nn.bias_add", (((32, 256, 31, 31), "float16"), ((256,), "float16")),
        lambda x, b: x + b[:, None, None], {"axis_of_bias": 1},
    )  # fmt: skip
    for shape, dtype, to in (
        ((4096, 4096), "float32", "float16"), ((4096, 4099), "bfloat16", "float32"),
        ((4096, 4096), "int8", "float32"),
    ):  # fmt: skip
        kind = getattr(torch, to)
        yield Case(
            "casts", "cast", ((shape, dtype),), lambda x, kind=kind: x.to(kind), {"dtype": to}
        )
    mask = (8, 16, 512, 512)
    yield Case(
        "casts", "where", ((mask, "bool"), (mask, "float16"), (mask, "float16")), torch.where
    )


def joins() -> Iterator[Case]:
    """Yield concatenations."""
    import torch

    for shapes, axis, dtype in (
        (((8, 256, 56, 56),) * 2, 1, "float32"),
        (((8, 256, 28, 28), (8, 128, 28, 28), (8, 64, 28, 28), (8, 32, 28, 28)), 1, "float16"),
        (((4096, 255), (4096, 257)), 1, "float32"), (((4096, 1024),) * 2, 1, "float16"),
        (((8, 28, 28, 256), (8, 28, 28, 128)), 3, "float16"),
        (((32, 1, 768), (32, 196, 768)), 1, "float32"),
    ):  # fmt: skip
        yield Case(
            "concatenations", "concatenate", tuple((shape, dtype) for shape in shapes),
            lambda *x, axis=axis: torch.cat(x, axis), {"along": axis},
        )  # fmt: skip
    for shape, count, axis in (((1024, 1024), 2, -1), ((512, 1024), 4, 0)):
        yield Case(
            "concatenations", "stack", ((shape, "float32"),) * count,
            lambda *x, axis=axis: torch.stack(x, axis), {"along": axis},
        )  # fmt: skip


def slices() -> Iterator[Case]:
    """Yield parts of arrays."""
    for shape, begin, end, strides, dtype in (
        ((8, 256, 56, 56), (0, 0, 0, 0), (8, 256, 56, 56), (1, 1, 2, 2), "float32"),
        ((4096, 4096), (0, 1), (4096, 4095), (1, 1), "float32"),
        ((4096, 4096), (0, 1024), (4096, 3072), (1, 1), "float16"),
        ((64, 512, 768), (0, 0, 0), (64, 1, 768), (1, 1, 1), "float16"),
        ((8, 3, 256, 256), (0, 0, 16, 16), (8, 3, 240, 240), (1, 1, 1, 1), "float32"),
    ):
        part = tuple(slice(*each) for each in zip(begin, end, strides, strict=True))
        yield Case(
            "slices", "strided_slice", ((shape, dtype),),
            lambda x, part=part: x[part].contiguous(),
            {"begin": begin, "end": end, "strides": strides},
        )  # fmt: skip
    yield Case(
        "slices", "split", (((8, 512, 2304), "float16"),),
        lambda x: tuple(part.contiguous() for part in x.chunk(3, 2)), {"sections": 3, "along": 2},
    )  # fmt: skip


def larger_arrays() -> Iterator[Case]:
    """Yield paddings, and images and arrays that are repeated."""
    import torch

    functional = torch.nn.functional
    for shape, sides, dtype in (
        ((8, 64, 112, 112), ((0, 0), (0, 0), (1, 1), (1, 1)), "float32"),
        ((8, 56, 56, 64), ((0, 0), (1, 1), (1, 1), (0, 0)), "float16"),
        ((4096, 1000), ((0, 0), (0, 24)), "float16"),
        ((8, 3, 224, 224), ((0, 0), (0, 1), (0, 0), (0, 0)), "float16"),
    ):
        flat = [number for pair in reversed(sides) for number in pair]
        yield Case(
            "paddings", "nn.pad", ((shape, dtype),), lambda x, flat=flat: functional.pad(x, flat),
            {"pad_width": sides},
        )  # fmt: skip
    for layout, shape, dtype in (
        ("NCHW", (8, 256, 28, 28), "float32"), ("NHWC", (8, 28, 28, 256), "float16"),
        ("NCHW", (1, 512, 64, 64), "float16"), ("NCHW", (2, 64, 67, 67), "float32"),
    ):  # fmt: skip

        def larger(x: Any, layout: str = layout) -> Any:
            images = x.permute(0, 3, 1, 2) if layout == "NHWC" else x
            out = functional.interpolate(images, scale_factor=2, mode="nearest")
            return out.permute(0, 2, 3, 1) if layout == "NHWC" else out

        yield Case(
            "resizes", "nn.upsampling", ((shape, dtype),), larger, {"scale": 2, "layout": layout}
        )
    whole = (64, 128, 56, 56)
    yield Case(
        "resizes", "broadcast_to", (((1, 128, 1, 1), "float32"),),
        lambda x: x.expand(whole).contiguous(), {"shape": whole},
    )  # fmt: skip


def cases() -> list[Case]:
    """Return all."""
    every = (
        reductions, softmax, prefix_sums, lookups, pooling, global_pooling, norms, broadcasts,
        maps, joins, slices, larger_arrays,
    )  # fmt: skip
    return [case for kind in every for case in kind()]
