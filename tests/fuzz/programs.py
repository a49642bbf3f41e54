"""Small programs drawn operator by operator, with what numpy computes for each of them.

Whatever a schedule does to them, results are the same to the last bit: integers of 32 and 64 bits
stay in their range, narrower and unsigned ones wrap, and floats are small multiples of 1/16. A
program in which they would not is drawn again.
"""

import operator
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import IntImm
from tests.fuzz.workloads import Workload

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64", "float16", "bfloat16")
DTYPES = (*SIGNED, *UNSIGNED, *FLOATS, "bool")
EXTENTS = (1, 2, 3, 5, 8, 13)
_COMPARE = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
_BITS = (operator.and_, operator.or_, operator.xor)


class Undefined(Exception):
    """The value of a program is not the same everywhere."""


@dataclass(frozen=True)
class Node:
    """A value: as an expression of loop variables, and as an array over arrays of them."""

    dtype: str
    expr: object
    value: object


@dataclass(frozen=True)
class Program(Workload):
    """A workload with inputs of its own, for which it is defined."""

    given: tuple = ()

    def arrays(self, seed):
        return [a.copy() for a in self.given]


def numpy_type(dtype):
    return ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)


def kept(value, dtype):
    """Return an exact value as one of a dtype, which 16-bit floats keep in float32."""
    if dtype == "bool":
        return value.astype(bool)
    if dtype in FLOATS:
        finite = value[np.isfinite(value)]
        narrow = finite.astype(numpy_type(dtype)).astype("f8")
        if (narrow != finite).any() or (abs(finite) > 1 << 16).any() or (finite * 16 % 1).any():
            raise Undefined
        return value.astype("f8")
    if dtype in ("int32", "int64"):
        bits = 8 * np.dtype(dtype).itemsize - 1
        if any(not -(1 << bits) <= v < 1 << bits for v in value.ravel()):
            raise Undefined
        return value
    bits = np.dtype(dtype).itemsize * 8
    low = -(1 << bits - 1) if dtype in SIGNED else 0
    return (value - low) % (1 << bits) + low


def exact(array, dtype):
    """Return an array in which numpy computes exactly: of Python's integers, or float64."""
    if dtype == "bool":
        return array
    return (
        array.astype("f8")
        if dtype in FLOATS
        else array.astype("i8" if dtype != "uint64" else "u8").astype(object)
    )


class Drawer:
    """Draws expressions over some tensors and loop variables."""

    def __init__(self, rng, sources, specials=False):
        self.rng = rng
        self.sources = sources  # tensor, its exact array
        self.specials = specials

    def draw(self, dtype, variables, depth):
        """Draw a value of a dtype; ``variables`` are the extents of loops."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.1:
            return self.leaf(dtype, variables)
        below = lambda of=dtype: self.draw(of, variables, depth - 1)
        if rng.random() < 0.15:
            return self.converted(below(rng.choice(DTYPES)), dtype)
        if rng.random() < 0.15:
            return self.chosen(below("bool"), below(), below())
        if dtype == "bool":
            if rng.random() < 0.3:
                both = rng.random() < 0.5
                a, b = below(), below()
                return Node(
                    "bool",
                    lambda v: (te.all if both else te.any)(a.expr(v), b.expr(v)),
                    lambda i: (np.logical_and if both else np.logical_or)(a.value(i), b.value(i)),
                )
            of, compare = rng.choice(DTYPES[:-1]), rng.choice(_COMPARE)
            return self.binary("bool", compare, compare, below(of), below(of))
        if dtype in FLOATS:
            return self.of_floats(dtype, below)
        return self.of_integers(dtype, below)

    def binary(self, dtype, of_exprs, of_values, a, b):
        return Node(
            dtype,
            lambda v: of_exprs(a.expr(v), b.expr(v)),
            lambda i: kept(of_values(a.value(i), b.value(i)), dtype),
        )

    def of_floats(self, dtype, below):
        kinds = ["+", "-", "*", "/", "-x", "abs"] + ["min", "max"] * (not self.specials)
        kind = self.rng.choice(kinds)
        a = below()
        if kind == "-x":
            return Node(dtype, lambda v: -a.expr(v), lambda i: -a.value(i))
        if kind == "abs":
            return Node(dtype, lambda v: te.abs(a.expr(v)), lambda i: abs(a.value(i)))
        if kind == "/":
            by = self.rng.choice([0.5, 1.0, 2.0, -2.0] + [0.0, -0.0] * self.specials)
            return Node(
                dtype, lambda v: a.expr(v) / by, lambda i: kept(a.value(i) / np.float64(by), dtype)
            )
        return self.arithmetic(dtype, kind, a, below())

    def arithmetic(self, dtype, kind, a, b):
        te_of = {"min": te.min, "max": te.max}
        np_of = {"min": np.minimum, "max": np.maximum}
        plain = {"+": operator.add, "-": operator.sub, "*": operator.mul}
        return self.binary(
            dtype, te_of.get(kind) or plain[kind], np_of.get(kind) or plain[kind], a, b
        )

    def of_integers(self, dtype, below):
        rng = self.rng
        a = below()
        kind = rng.choice(
            ["+", "-", "*", "min", "max", "bits", "~", "shift", "abs", "ones"] + ["div"] * 4
        )
        bits = np.dtype(dtype).itemsize * 8
        if kind == "div":
            return self.division(dtype, a, below)
        if kind == "bits":
            apply = rng.choice(_BITS)
            return self.binary(dtype, apply, apply, a, below())
        if kind == "~":
            return Node(dtype, lambda v: ~a.expr(v), lambda i: kept(-1 - a.value(i), dtype))
        if kind == "shift":
            by, apply = rng.randrange(bits), rng.choice([operator.lshift, operator.rshift])
            return Node(
                dtype,
                lambda v: apply(a.expr(v), te.const(by, dtype)),
                lambda i: kept(_shifted(apply, a.value(i), by, dtype), dtype),
            )
        if kind == "abs":
            return Node(dtype, lambda v: te.abs(a.expr(v)), lambda i: kept(abs(a.value(i)), dtype))
        if kind == "ones":
            ones = np.frompyfunc(lambda x: bin(x % (1 << bits)).count("1"), 1, 1)
            return Node(
                dtype, lambda v: te.popcount(a.expr(v)).astype(dtype), lambda i: ones(a.value(i))
            )
        return self.arithmetic(dtype, kind, a, below())

    def division(self, dtype, a, below):
        """One of four divisions, by a constant or by a number that may be zero and is guarded."""
        name = self.rng.choice(["floordiv", "floormod", "truncdiv", "truncmod"])
        of_values = np.frompyfunc(getattr(_Divisions, name), 2, 1)
        if self.rng.random() < 0.5:
            by = self.rng.choice([1, 2, 3, 4, 7, 16, 100] + [-1, -2, -5] * (dtype in SIGNED))
            return Node(
                dtype,
                lambda v: getattr(te, name)(a.expr(v), te.const(by, dtype)),
                lambda i: kept(of_values(a.value(i), by), dtype),
            )
        b, zero = below(), te.const(0, dtype)
        other = self.rng.randrange(5)

        def expr(v):
            by = b.expr(v)
            if isinstance(by, IntImm) and by.value == 0:
                raise Undefined  # te refuses it
            divided = getattr(te, name)(a.expr(v), by)
            return te.if_then_else(by != zero, divided, te.const(other, dtype))

        def value(i):
            by = b.value(i)
            safe = of_values(a.value(i), np.where(by == 0, 1, by))
            return kept(np.where(by == 0, other, safe), dtype)

        return Node(dtype, expr, value)

    def chosen(self, condition, a, b):
        form = self.rng.choice([te.select, te.if_then_else])
        return Node(
            a.dtype,
            lambda v: form(condition.expr(v), a.expr(v), b.expr(v)),
            lambda i: np.where(condition.value(i), a.value(i), b.value(i)),
        )

    def converted(self, a, dtype):
        def value(i):
            from_value = a.value(i)
            if dtype == "bool":
                return from_value != 0
            if dtype in FLOATS:
                return kept(from_value.astype("f8"), dtype)
            if a.dtype in FLOATS:
                return kept(_whole(from_value, dtype), dtype)
            wide = (
                from_value.astype(object)
                if a.dtype != "bool"
                else from_value.astype("i8").astype(object)
            )
            return kept(_wrapped(wide, dtype), dtype)

        return Node(dtype, lambda v: a.expr(v).astype(dtype), value)

    # -- leaves ------------------------------------------------------------------------------

    def leaf(self, dtype, variables):
        rng = self.rng
        if rng.random() < 0.15:
            number = rng.randrange(
                0 if dtype in UNSIGNED or dtype == "bool" else -5, 2 if dtype == "bool" else 9
            )
            if dtype == "bool":
                number = bool(number)
            at = lambda i: exact(
                np.full(np.broadcast(*i).shape, number).astype(numpy_type(dtype)), dtype
            )
            return Node(dtype, lambda v: te.const(number, dtype), at)
        if rng.random() < 0.1:
            which = rng.randrange(len(variables))
            loop = Node(
                "int32",
                lambda v: v[which] + 0,
                lambda i: (np.broadcast_arrays(*i)[which]).astype(object),
            )
            return loop if dtype == "int32" else self.converted(loop, dtype)
        tensor, array = rng.choice(self.sources)
        read = self.read(tensor, array, variables)
        return read if tensor.dtype == dtype else self.converted(read, dtype)

    def read(self, tensor, array, variables):
        """Read an element at affine indices, under a condition where they may be outside."""
        rng = self.rng
        picks = []
        for extent in array.shape:
            fitting = [n for n, size in enumerate(variables) if size == extent]
            if fitting and rng.random() < 0.5:
                picks.append((rng.choice(fitting), 1, rng.choice([0, 0, 0, 1, -1]), 1))
            else:
                which = rng.randrange(len(variables))
                picks.append(
                    (
                        which,
                        rng.choice([1, 1, 2, -1, 3]),
                        rng.choice([0, 1, -1, extent - 1]),
                        rng.choice([1, 1, 2, 3]),
                    )
                )

        def index(loops, divide):
            return [
                divide(loops[w] * scale + offset, by) if by > 1 else loops[w] * scale + offset
                for w, scale, offset, by in picks
            ]

        ranges = [sorted([o, (variables[w] - 1) * s + o]) for w, s, o, _ in picks]
        guards = [
            n
            for n, ((low, high), (_, _, _, by)) in enumerate(zip(ranges, picks, strict=True))
            if low < 0 or high // by >= array.shape[n]
        ]
        other = 0 if tensor.dtype in UNSIGNED else rng.choice([0, 1])
        other = te.const(bool(other) if tensor.dtype == "bool" else other, tensor.dtype)

        def expr(v):
            at = index(v, te.floordiv)
            load = tensor(*at)
            if not guards:
                return load
            inside = [c for n in guards for c in (at[n] >= 0, at[n] < array.shape[n])]
            return te.if_then_else(te.all(*inside), load, other)

        def value(i):
            at = index([np.asarray(x) for x in i], operator.floordiv)
            inside = np.ones(np.broadcast(*i).shape, bool)
            for n in guards:
                inside &= (at[n] >= 0) & (at[n] < array.shape[n])
            at = [np.clip(x, 0, n - 1) for x, n in zip(at, array.shape, strict=True)]
            return np.where(
                inside,
                np.broadcast_to(array[tuple(np.broadcast_arrays(*at))], inside.shape),
                other.value,
            )

        return Node(tensor.dtype, expr, value)


class _Divisions:
    floordiv, floormod = operator.floordiv, operator.mod

    @staticmethod
    def truncdiv(a, b):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    @staticmethod
    def truncmod(a, b):
        return a - b * _Divisions.truncdiv(a, b)


def _shifted(apply, value, by, dtype):
    if apply is operator.lshift and dtype in SIGNED and (value < 0).any():
        raise Undefined
    return apply(value, by)


def _whole(value, dtype):
    whole = np.trunc(value)
    if not np.isfinite(whole).all():
        raise Undefined
    whole = whole.astype("i8").astype(object)
    if dtype not in ("int32", "int64") and (kept(whole, dtype) != whole).any():
        raise Undefined
    return whole


def _wrapped(value, dtype):
    if dtype == "int32":
        return (value + (1 << 31)) % (1 << 32) - (1 << 31)
    if dtype == "int64":
        return (value + (1 << 63)) % (1 << 64) - (1 << 63)
    return value


def _numbers(rng, shape, dtype, specials):
    made = np.random.default_rng(rng.randrange(1 << 30))
    if dtype == "bool":
        return made.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        x = made.integers(-6, 7, shape) / 2
        if specials:
            x = np.where(
                made.random(shape) < 0.2, made.choice([np.nan, np.inf, -np.inf, -0.0], shape), x
            )
        return x.astype(numpy_type(dtype))
    if dtype in ("int32", "int64") or made.random() < 0.5:
        return made.integers(0 if dtype in UNSIGNED else -9, 10, shape).astype(dtype)
    info = np.iinfo(dtype)
    return made.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def _computed(rng, sources, name, specials, reduces):
    """Draw a compute of some tensors; return its tensor and its exact array."""
    dtype = rng.choice(DTYPES)
    shape = tuple(rng.choice(EXTENTS) for _ in range(rng.choice([1, 2, 2, 3])))
    reduces = (
        tuple(rng.choice([1, 2, 3, 7]) for _ in range(rng.choice([1, 1, 2, 3]))) if reduces else ()
    )
    if reduces and dtype == "bool":
        dtype = "int32"
    node = Drawer(rng, sources, specials).draw(dtype, (*shape, *reduces), rng.randint(1, 3))
    grid = np.ogrid[tuple(slice(n) for n in (*shape, *reduces))]
    array = np.broadcast_to(node.value(grid), (*shape, *reduces))
    axes = [te.reduce_axis((0, n), f"r{i}") for i, n in enumerate(reduces)]
    if not reduces:
        return te.compute(shape, lambda *v: node.expr(v), name=name), kept(array, dtype)
    along = tuple(range(len(shape), array.ndim))
    kind = rng.choice(["sum", "max", "min"]) if not specials else "sum"
    reduced = {"sum": np.sum, "max": np.max, "min": np.min}[kind](array, axis=along)
    if kind == "sum" and dtype in FLOATS:
        kept(np.abs(array).sum(axis=along), dtype)  # so that parts of the sum are exact too
    elif kind == "sum" and dtype in ("int32", "int64"):
        kept(abs(array).sum(axis=along), dtype)
    of = getattr(te, kind)
    tensor = te.compute(shape, lambda *v: of(node.expr((*v, *axes)), axis=axes), name=name)
    return tensor, kept(np.asarray(reduced), dtype)


def program(rng):
    """Draw a program of one to three computes, each of which may read all before it."""
    for _ in range(1000):
        try:
            with np.errstate(all="ignore"):
                return _program(rng)
        except Undefined:
            continue
        except ExpressionError as error:
            if not isinstance(error.__cause__, Undefined):
                raise
    raise AssertionError("no program in 1000 is defined")


def _program(rng):
    specials = rng.random() < 0.2
    sources, given = [], []
    for name in "ABC"[: rng.randint(1, 3)]:
        dtype = rng.choice(DTYPES)
        shape = tuple(rng.choice(EXTENTS) for _ in range(rng.choice([1, 2, 2, 3])))
        given.append(_numbers(rng, shape, dtype, specials))
        sources.append((te.placeholder(shape, name=name, dtype=dtype), exact(given[-1], dtype)))
    inputs = tuple(tensor for tensor, _ in sources)
    reading = sources
    for n in range(rng.choice([1, 1, 2, 3])):
        made = _computed(rng, reading, f"stage{n}", specials, rng.random() < 0.4)
        reading = [made, *rng.sample(sources, rng.randint(0, len(sources)))]
    last, array = made
    used = _inputs_of(last)
    keep = [n for n, tensor in enumerate(inputs) if tensor in used]
    if not keep:
        raise Undefined
    dtype = np.dtype("f8") if last.dtype in FLOATS else np.dtype(last.dtype)
    result = array.astype(dtype)
    return Program(
        tuple(inputs[n] for n in keep),
        (last,),
        lambda *_: result,
        0,
        tuple(given[n] for n in keep),
    )


def _inputs_of(tensor):
    found, waiting = [], [tensor]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += one.op.input_tensors
    return found


PROGRAMS = {"program": program}
