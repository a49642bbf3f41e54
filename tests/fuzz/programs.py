"""Small programs drawn operator by operator, with what numpy computes for each of them.

Whatever a schedule does to them, results are the same to the last bit, as all values are exact. A
program with an undefined value is drawn again.
"""

from dataclasses import dataclass

import numpy as np

from autotune import te
from autotune.errors import ExpressionError
from tests.fuzz.exact import (
    DTYPES,
    FLOATS,
    UNSIGNED,
    Undefined,
    check_parts,
    exact,
    kept,
    numpy_type,
)
from tests.fuzz.expressions import Drawer
from tests.fuzz.workloads import Workload

EXTENTS = (1, 2, 3, 5, 8, 13)


@dataclass(frozen=True)
class Program(Workload):
    """A workload with inputs of its own, for which it is defined."""

    given: tuple = ()

    def arrays(self, seed):
        return [a.copy() for a in self.given]


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
        check_parts(array, along, dtype)
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
