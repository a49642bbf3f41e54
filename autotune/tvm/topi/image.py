"""TVM's `topi.image`: images of another size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import add, mul

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi.arguments import asks, takes, tensor
from autotune.topi.utils import static_shape
from autotune.utils.check import Check

__all__ = ["resize", "resize1d", "resize2d", "resize3d"]

# Of one output coordinate: the pixels that it is made of, and how much of each.
Taps = list[tuple[Expr, Expr]]

_MODES = ("half_pixel", "align_corners", "asymmetric")
_METHODS = {
    "nearest_neighbor": "nearest", "nearest": "nearest", "linear": "linear", "bilinear": "linear",
    "trilinear": "linear", "cubic": "cubic", "bicubic": "cubic",
}  # fmt: skip
_ROUNDINGS: dict[str, Callable[[Expr], Expr]] = {
    "round": lambda x: te.floor(x + 0.5),
    "round_prefer_floor": lambda x: te.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: te.floor(x + 0.5),
    # Positions that are whole may come out a little less, or more.
    "floor": lambda x: te.floor(x + 1e-5),
    "ceil": lambda x: te.ceil(x - 1e-5),
}


def resize(
    data: Tensor,
    size: Sequence[int],
    layout: str = "NCHW",
    method: str = "bilinear",
    coordinate_transformation_mode: str = "half_pixel",
    out_dtype: str | None = None,
    output_shape: object = None,
) -> Tensor:
    """Do what `resize2d` does, with the arguments that TVM up to 0.7 has."""
    del output_shape
    return resize2d(
        data, None, size, layout, method, coordinate_transformation_mode, out_dtype=out_dtype
    )


@dataclass(frozen=True)
class _Sampling:
    """How pixels of a new size are made of old ones; the fields are arguments of `resize2d`."""

    method: str
    mode: str
    rounding: str
    alpha: float

    def taps(self, index: Expr, old: int, new: int) -> Taps:
        """Return the taps of a coordinate."""
        x = _position(index, old, new, self.mode)
        match _METHODS[self.method]:
            case "nearest":
                rounding = self.rounding or ("round" if self.mode == "align_corners" else "floor")
                return [(_inside(_ROUNDINGS[rounding](x), old), te.const(1, "float32"))]
            case "linear":
                return _linear(x, old)
            case _:
                return _cubic(x, old, self.alpha)

    def check(self, check: Check) -> None:
        """Refuse what is not known."""
        check.one_of("coordinate_transformation_mode", self.mode, _MODES)
        check.one_of("method", self.method, _METHODS)
        check.one_of("rounding_method", self.rounding, ("", *_ROUNDINGS))


def _resizing(axes: str) -> Callable[..., Tensor]:
    """Return the operator that gives some axes other extents."""

    @takes(data=tensor)
    def resized(
        data: Tensor,
        roi: object,
        size: Sequence[int],
        layout: str = f"NC{axes}",
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "",
        bicubic_alpha: float = -0.5,
        bicubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: str | None = None,
        output_shape: object = None,
    ) -> Tensor:
        """Scale images by interpolation.

        Args:
            data: the images.
            roi, extrapolation_value, output_shape: accepted for TVM's scripts; of no meaning
                without the mode ``tf_crop_and_resize``, which is not here.
            size: the new extents.
            layout: the axes of the data by letter.
            method: ``"nearest_neighbor"``, ``"linear"`` or ``"cubic"``.
            coordinate_transformation_mode: ``"half_pixel"``, ``"align_corners"`` or
                ``"asymmetric"``: where the new pixels are among the old ones.
            rounding_method: of the nearest neighbour: ``"round"``, ``"round_prefer_floor"``,
                ``"round_prefer_ceil"``, ``"floor"`` or ``"ceil"``.
            bicubic_alpha: the slope of the cubic at its second zero.
            bicubic_exclude: only 0 is known: pixels outside are those at the edge.
            out_dtype: of the result; by default that of the data.
        """
        del roi, extrapolation_value, output_shape
        check = asks(name)
        sampling = _Sampling(
            method, coordinate_transformation_mode, rounding_method, bicubic_alpha
        )
        sampling.check(check)
        if bicubic_exclude:
            check.refuse("bicubic_exclude", "0", bicubic_exclude)
        if sorted(layout) != sorted(f"NC{axes}"):
            check.refuse("layout", f"an order of the letters NC{axes}", layout)
        if len(check.sequence("size", size, f"{len(axes)} extents")) != len(axes):
            check.refuse("size", f"{len(axes)} extents", size)
        new = {layout.index(axis): int(n) for axis, n in zip(axes, size, strict=True)}
        return _scaled(name, data, new, sampling, out_dtype or data.dtype)

    name = f"resize{len(axes)}d"
    resized.__name__ = resized.__qualname__ = name
    return resized


def _scaled(
    what: str, data: Tensor, new: dict[int, int], sampling: _Sampling, dtype: str
) -> Tensor:
    """Return a tensor of which some axes have new extents."""
    shape = static_shape(what, "data", data, data.ndim)

    def pixel(*i: Expr) -> Expr:
        taps = [sampling.taps(i[at], shape[at], n) for at, n in new.items()]
        terms = []
        for chosen in product(*taps):
            index = list(i)
            for at, (place, _) in zip(new, chosen, strict=True):
                index[at] = place
            weight = reduce(mul, [share for _, share in chosen])
            terms.append((data(*index), weight))
        if len(terms) == 1:
            return te.cast(terms[0][0], dtype)
        return te.cast(reduce(add, [te.cast(v, "float32") * w for v, w in terms]), dtype)

    extents = tuple(new.get(at, n) for at, n in enumerate(shape))
    found: Tensor = te.compute(extents, pixel, name="resize")
    return found


resize1d = _resizing("W")
resize2d = _resizing("HW")
resize3d = _resizing("DHW")


def _position(index: Expr, old: int, new: int, mode: str) -> Expr:
    """Return where a pixel of the result is among those of an image."""
    i = te.cast(index, "float32")
    if mode == "align_corners":
        return i * te.const((old - 1) / max(new - 1, 1), "float32")
    ratio = te.const(old / new, "float32")
    return (i + 0.5) * ratio - 0.5 if mode == "half_pixel" else i * ratio


def _inside(place: Expr, extent: int) -> Expr:
    return te.max(te.min(te.cast(place, "int32"), extent - 1), 0)


def _linear(x: Expr, extent: int) -> Taps:
    low = te.floor(x)
    share = x - low
    return [(_inside(low, extent), 1.0 - share), (_inside(low + 1.0, extent), share)]


def _cubic(x: Expr, extent: int, alpha: float) -> Taps:
    """Return the four taps of Keys' cubic convolution (1981)."""
    low = te.floor(x)
    t = x - low
    a = te.const(alpha, "float32")
    weights = [
        a * (t * t * t - t * t * 2.0 + t),
        (a + 2.0) * t * t * t - (a + 3.0) * t * t + 1.0,
        -(a + 2.0) * t * t * t + (a * 2.0 + 3.0) * t * t - a * t,
        a * (t * t - t * t * t),
    ]
    return [(_inside(low + float(n - 1), extent), w) for n, w in enumerate(weights)]
