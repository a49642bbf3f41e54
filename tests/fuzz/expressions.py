"""Expressions of loop variables, drawn with what numpy computes for each of them."""

import operator
from dataclasses import dataclass

import numpy as np

from autotune import te
from autotune.ir import IntImm
from tests.fuzz.exact import (
    DTYPES,
    FLOATS,
    SIGNED,
    UNSIGNED,
    Divisions,
    Undefined,
    exact,
    kept,
    numpy_type,
    shifted,
    whole,
    wrapped,
)

_COMPARE = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
_BITS = (operator.and_, operator.or_, operator.xor)


@dataclass(frozen=True)
class Node:
    """A value: as an expression of loop variables, and as an array over arrays of them."""

    dtype: str
    expr: object
    value: object


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
                lambda i: kept(shifted(apply, a.value(i), by, dtype), dtype),
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
        of_values = np.frompyfunc(getattr(Divisions, name), 2, 1)
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
                return kept(whole(from_value, dtype), dtype)
            wide = (
                from_value.astype(object)
                if a.dtype != "bool"
                else from_value.astype("i8").astype(object)
            )
            return kept(wrapped(wide, dtype), dtype)

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
        access = Access([self.index(extent, variables) for extent in array.shape])
        guards = access.outside(array.shape, variables)
        other = 0 if tensor.dtype in UNSIGNED else self.rng.choice([0, 1])
        other = te.const(bool(other) if tensor.dtype == "bool" else other, tensor.dtype)

        def expr(v):
            at = access.indices(v, te.floordiv)
            load = tensor(*at)
            if not guards:
                return load
            inside = [c for n in guards for c in (at[n] >= 0, at[n] < array.shape[n])]
            return te.if_then_else(te.all(*inside), load, other)

        def value(i):
            at = access.indices([np.asarray(x) for x in i], operator.floordiv)
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

    def index(self, extent, variables):
        """Draw an index of an axis: a loop of its length, or any affine one, perhaps divided."""
        rng = self.rng
        fitting = [n for n, size in enumerate(variables) if size == extent]
        if fitting and rng.random() < 0.5:
            return rng.choice(fitting), 1, rng.choice([0, 0, 0, 1, -1]), 1
        return (
            rng.randrange(len(variables)),
            rng.choice([1, 1, 2, -1, 3]),
            rng.choice([0, 1, -1, extent - 1]),
            rng.choice([1, 1, 2, 3]),
        )


@dataclass(frozen=True)
class Access:
    """Indices of a tensor, each of which is (loop * scale + offset) // divisor."""

    picks: list

    def indices(self, loops, divide):
        return [
            divide(loops[w] * scale + offset, by) if by > 1 else loops[w] * scale + offset
            for w, scale, offset, by in self.picks
        ]

    def outside(self, shape, variables):
        """Return the axes whose indices may be outside."""
        ranges = [sorted([o, (variables[w] - 1) * s + o]) for w, s, o, _ in self.picks]
        return [
            n
            for n, ((low, high), (_, _, _, by)) in enumerate(zip(ranges, self.picks, strict=True))
            if low < 0 or high // by >= shape[n]
        ]
