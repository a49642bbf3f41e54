"""Complex tensors: within a graph each is two values, of its real and of its imaginary parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Constant, Operator, TensorType, Value, Variable, ops
from autotune.importers.pytorch.call import Bound, Call, converter_of
from autotune.importers.pytorch.fourier import real_inverse, transformed
from autotune.importers.pytorch.nodes import in_order, mapped, origin_of
from autotune.importers.pytorch.tensors import numbers_of, type_of

_PARTS = {"torch.complex64": "float32", "torch.complex128": "float64"}


@dataclass(frozen=True)
class Complex:
    """The value of a complex tensor."""

    real: Value
    imaginary: Value


# What a call of torch passes: a tensor, or a number.
_Given = Complex | Value | complex
# A part of what is passed; None for zeros.
_Part = Value | float | None


def has_complex(made: Any) -> bool:
    """Return whether something is a complex tensor, or a list with one."""
    several = made if isinstance(made, (list, tuple)) else (made,)
    return any(str(getattr(each, "dtype", "")).startswith("torch.complex") for each in several)


def is_of_complex(node: Any) -> bool:
    """Return whether a call reads or makes complex tensors."""
    return any(has_complex(each.meta.get("val")) for each in (node, *node.all_input_nodes))


def entering(made: Any, name: str) -> tuple[Variable, Value | Complex]:
    """Return the variable for a tensor that a graph takes, and the value that it becomes.

    Memory of complex numbers is that of real ones with one more dimension, of two elements.

    Raises:
        GraphError: autotune has no such tensors.
    """
    if not has_complex(made):
        variable = Variable(type_of(made), name)
        return variable, variable
    kind = _type_of_parts(made)
    variable = Variable(TensorType((*kind.shape, 2), kind.dtype), name)
    return variable, _apart(Call(name, (kind,), name), variable)


def constant(tensor: Any, name: str) -> Complex:
    """Return the value of a tensor whose numbers are known."""
    whole = numbers_of(tensor.resolve_conj())
    parts = (Constant.of(part, name=name) for part in (whole.real.copy(), whole.imag.copy()))
    return Complex(*parts)


def converted(node: Any, value_of: Callable[[Any], Value | Complex], bounds: list[Bound]) -> Any:
    """Return what a call that reads or makes complex tensors becomes; None if there is no rule.

    Args:
        node: the call.
        value_of: returns the value of a node.
        bounds: takes those of indices.
    """
    made = node.meta["val"]
    several = made if isinstance(made, (list, tuple)) else (made,)
    types = tuple(_type_of_parts(each) for each in several if hasattr(each, "dtype"))
    call = Call(str(node.target), types, origin_of(node), bounds)
    name = call.name.removeprefix("aten.").split(".")[0]
    if not has_complex(made) and name not in _TO_REAL:
        return None
    args = mapped(in_order(node), value_of)
    if name in _OF_EACH_PART:
        return _by_parts(call, node.target, args)
    rule = _RULES.get(name)
    return None if rule is None else rule(call, *args)


def _type_of_parts(made: Any) -> TensorType:
    if not has_complex(made):
        return type_of(made)
    dtype = _PARTS.get(str(made.dtype))
    if dtype is None:
        raise GraphError(f"PyTorch: tensors of {made.dtype} are not supported")
    if any(type(extent) is not int or extent == 0 for extent in made.shape):
        raise GraphError(f"PyTorch: a complex tensor has the shape {tuple(map(str, made.shape))}")
    return TensorType(tuple(made.shape), dtype)


def _apart(call: Call, x: Value) -> Complex:
    """Return pairs of real numbers along the last axis as complex ones."""
    last = x.type.ndim - 1
    return Complex(*(call.reshape(call.slice(x, last, i, i + 1), x.shape[:-1]) for i in (0, 1)))


# Each part of the result is what the operator makes of that part of the data.
_OF_EACH_PART = frozenset((
    "_reshape_alias", "_unsafe_view", "alias", "cat", "chunk", "clone", "contiguous", "cumsum",
    "detach", "expand", "flip", "gather", "index", "index_select", "mean", "movedim", "neg",
    "permute", "repeat", "reshape", "roll", "select", "slice", "split", "split_with_sizes",
    "squeeze", "stack", "sum", "t", "transpose", "unbind", "unsqueeze", "view",
))  # fmt: skip


def _by_parts(call: Call, target: Any, args: Sequence[Any]) -> Any:
    """Apply an operator to the real parts, and to the imaginary ones."""
    convert = converter_of(target)
    if convert is None:
        return None

    def part(given: Any, is_real: bool) -> Any:
        if isinstance(given, list):
            return [part(each, is_real) for each in given]
        if isinstance(given, Complex):
            return given.real if is_real else given.imaginary
        if isinstance(given, Value) and not is_real:
            return call.expand(call.constant(0, given.dtype), given.shape)
        return given

    # Tensors behind the data are indices.
    made = [convert(call, part(args[0], each), *args[1:]) for each in (True, False)]
    several = [[each] if isinstance(each, Value) else list(each or ()) for each in made]
    found = [
        Complex(real, imaginary)
        for real, imaginary in zip(*several, strict=True)
        if real is not None and imaginary is not None
    ]
    return found[0] if isinstance(made[0], Value) else found


class _Arithmetic:
    """Arithmetic of parts in the dtype of a call's result, of which None is zero."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.dtype = call.type.dtype

    def parts(self, given: _Given) -> tuple[_Part, _Part]:
        """Return the real and the imaginary part."""
        if isinstance(given, Complex):
            return given.real, given.imaginary
        if isinstance(given, Value):
            return given, None
        number = complex(given)
        return number.real or None, number.imag or None

    def _applied(self, op: Callable[[], Operator], a: Value | float, b: Value | float) -> Value:
        return self.call.binary(op, a, b, self.dtype)

    def times(self, a: _Part, b: _Part) -> _Part:
        """Multiply."""
        return None if a is None or b is None else self._applied(ops.Multiply, a, b)

    def plus(self, a: _Part, b: _Part) -> _Part:
        """Add."""
        if a is None or b is None:
            return b if a is None else a
        return self._applied(ops.Add, a, b)

    def minus(self, a: _Part, b: _Part) -> _Part:
        """Subtract."""
        if b is None:
            return a
        return self._applied(ops.Subtract, 0.0 if a is None else a, b)

    def over(self, a: _Part, b: Value | float) -> _Part:
        """Divide."""
        return None if a is None else self._applied(ops.Divide, a, b)

    def made(self, real: _Part, imaginary: _Part) -> Complex:
        """Return both parts in the shape of the result."""
        shape = self.call.type.shape
        wide = (
            self.call.expand(self.call.value(0.0 if x is None else x, self.dtype), shape)
            for x in (real, imaginary)
        )
        return Complex(*wide)


def _sum(call: Call, a: _Given, b: _Given, alpha: complex = 1) -> Complex:
    number = _Arithmetic(call)
    (ar, ai), (br, bi) = number.parts(a), number.parts(_product(call, b, alpha))
    return number.made(number.plus(ar, br), number.plus(ai, bi))


def _difference(call: Call, a: _Given, b: _Given, alpha: complex = 1) -> Complex:
    number = _Arithmetic(call)
    (ar, ai), (br, bi) = number.parts(a), number.parts(_product(call, b, alpha))
    return number.made(number.minus(ar, br), number.minus(ai, bi))


def _product(call: Call, a: _Given, b: _Given) -> _Given:
    if not isinstance(b, Complex | Value) and b == 1:
        return a
    number = _Arithmetic(call)
    (ar, ai), (br, bi) = number.parts(a), number.parts(b)
    real = number.minus(number.times(ar, br), number.times(ai, bi))
    return Complex(*_plain(call, real, number.plus(number.times(ar, bi), number.times(ai, br))))


def _plain(call: Call, *parts: _Part) -> list[Value]:
    return [call.value(0.0 if each is None else each) for each in parts]


def _multiply(call: Call, a: _Given, b: _Given) -> Complex:
    number = _Arithmetic(call)
    return number.made(*number.parts(_product(call, a, b)))


def _quotient(call: Call, a: _Given, b: _Given, rounding_mode: str | None = None) -> Complex:
    if rounding_mode is not None:
        call.refuse("rounding_mode", "None", rounding_mode)
    number = _Arithmetic(call)
    (ar, ai), (br, bi) = number.parts(a), number.parts(b)
    if bi is None:
        divisor = 0.0 if br is None else br
        return number.made(number.over(ar, divisor), number.over(ai, divisor))
    c, d = (call.value(0.0 if each is None else each, number.dtype) for each in (br, bi))
    scale = _scale(call, c, d)
    br, bi = number.over(c, scale), number.over(d, scale)
    square = number.plus(number.times(br, br), number.times(bi, bi))
    assert square is not None
    real = number.plus(number.times(ar, br), number.times(ai, bi))
    imaginary = number.minus(number.times(ai, br), number.times(ar, bi))
    return number.made(*(number.over(number.over(x, square), scale) for x in (real, imaginary)))


def _matmul(call: Call, a: Complex | Value, b: Complex | Value) -> Complex:
    """Multiply matrices, of each pair of parts."""
    convert = converter_of(call.name)
    assert convert is not None
    number = _Arithmetic(call)

    def product(x: _Part, y: _Part) -> _Part:
        if not isinstance(x, Value) or not isinstance(y, Value):
            return None
        made = convert(call, call.cast(x, number.dtype), call.cast(y, number.dtype))
        assert isinstance(made, Value)
        return made

    (ar, ai), (br, bi) = number.parts(a), number.parts(b)
    real = number.minus(product(ar, br), product(ai, bi))
    return number.made(real, number.plus(product(ar, bi), product(ai, br)))


def _conjugate(call: Call, x: Complex | Value) -> Complex | Value:
    if not isinstance(x, Complex):
        return x
    return Complex(x.real, call.apply(ops.Negative(), x.imaginary))


def _absolute(call: Call, x: Complex) -> Value:
    parts = (x.real, x.imaginary)
    scale = _scale(call, *parts)
    shares = (call.apply(ops.Divide(), each, scale) for each in parts)
    squares = (call.apply(ops.Multiply(), each, each) for each in shares)
    length = call.apply(ops.Sqrt(), call.apply(ops.Add(), *squares))
    return call.apply(ops.Multiply(), length, scale)


def _scale(call: Call, *parts: Value) -> Value:
    """Return the greater absolute value, by which numbers can be divided.

    Squares of what is divided by it neither overflow nor vanish.
    """
    limits = np.finfo(parts[0].dtype)
    most = call.apply(ops.Maximum(), *(call.apply(ops.Abs(), each) for each in parts))
    some = call.apply(ops.Maximum(), most, call.constant(limits.tiny, most.dtype))
    return call.apply(ops.Minimum(), some, call.constant(limits.max, most.dtype))


def _power_of_e(call: Call, x: Complex) -> Complex:
    return _polar(call, call.apply(ops.Exp(), x.real), x.imaginary)


def _polar(call: Call, absolute: Value, angle: Value) -> Complex:
    number = _Arithmetic(call)
    turned = (call.apply(op, angle) for op in (ops.Cos(), ops.Sin()))
    return number.made(*(number.times(absolute, each) for each in turned))


def _joined(call: Call, x: Complex) -> Value:
    """Return both parts side by side along a new last axis."""
    parts = [call.reshape(each, (*each.shape, 1)) for each in (x.real, x.imaginary)]
    return call.concatenate(parts, len(parts[0].shape) - 1)


def _angle(call: Call, x: Complex) -> Value:
    return call.apply(ops.Atan2(), x.imaginary, x.real)


def _padded(call: Call, x: Complex, pad: Sequence[int], value: complex = 0) -> Complex:
    """Surround with zeros, as transforms of more points than there are numbers do."""
    if value != 0:
        call.refuse("value", "0 around complex numbers", value)
    convert = converter_of(call.name)
    assert convert is not None
    real, imaginary = (convert(call, each, pad, 0) for each in (x.real, x.imaginary))
    assert isinstance(real, Value)
    assert isinstance(imaginary, Value)
    return Complex(real, imaginary)


def _spectrum(
    call: Call, x: Value, dim: Sequence[int], normalisation: int, one_sided: bool
) -> Complex:
    """Return the frequencies of real numbers."""
    return _complex(
        call, *transformed(call, (x, None), dim, normalisation, True, one_sided=one_sided)
    )


def _fourier(
    call: Call, x: Complex, dim: Sequence[int], normalisation: int, forward: bool
) -> Complex:
    return _complex(call, *transformed(call, (x.real, x.imaginary), dim, normalisation, forward))


def _complex(call: Call, real: Value, imaginary: Value | None) -> Complex:
    return _Arithmetic(call).made(real, imaginary)


def _cast(call: Call, x: Complex | Value, *_: object) -> Complex:
    number = _Arithmetic(call)
    return number.made(*number.parts(x))


_RULES: dict[str, Callable[..., Value | Complex]] = {
    "_conj": _conjugate, "conj": _conjugate, "conj_physical": _conjugate,
    # Torch puts conjugates off, values do not.
    "resolve_conj": lambda call, x: x, "resolve_neg": lambda call, x: x,
    "_to_copy": _cast, "to": _cast,
    "_fft_c2c": _fourier, "_fft_r2c": _spectrum,
    "_fft_c2r": lambda call, x, dim, norm, points: real_inverse(
        call, (x.real, x.imaginary), dim, norm, points
    ),
    "angle": _angle, "constant_pad_nd": _padded,
    "abs": _absolute,
    "add": _sum, "sub": _difference, "mul": _multiply, "div": _quotient,
    "rsub": lambda call, a, b, alpha=1: _difference(call, b, a, alpha),
    "bmm": _matmul, "matmul": _matmul, "mm": _matmul,
    "complex": lambda call, real, imaginary: _Arithmetic(call).made(real, imaginary),
    "exp": _power_of_e,
    "imag": lambda call, x: x.imaginary, "real": lambda call, x: x.real,
    "polar": _polar,
    "reciprocal": lambda call, x: _quotient(call, 1, x),
    "view_as_complex": _apart, "view_as_real": _joined,
}  # fmt: skip
# Those whose result is real.
_TO_REAL = ("_fft_c2r", "abs", "angle", "imag", "real", "view_as_real")
