"""Random `te.scan`s with random schedules of what each step computes, and numpy's loop over rows.

All is in integers, which wrap in numpy as in kernels.
"""

import random
from dataclasses import dataclass

import numpy as np

from autotune import te
from autotune.codegen import kernel_of_schedule
from autotune.errors import LoweringError, ScheduleError
from autotune.target import Target
from autotune.te import ComputeOp
from tests.fuzz.check import Trial
from tests.fuzz.workloads import Workload

_KINDS = ("same", "back", "turned", "flipped", "x", "guarded", "product", "stage")


@dataclass(frozen=True)
class Term:
    """A part of an update: of which state, times what, and from which element."""

    kind: str
    state: int
    factor: int


class Recurrence:
    """One or two states whose rows are sums of terms of the rows before.

    Attributes:
        stages: the computes that updates read, and nothing else does.
    """

    def __init__(self, rng):
        self.rows, self.width = rng.choice([3, 4, 6, 9]), rng.choice([1, 2, 5, 8, 12, 33])
        self.begun, self.dtype = rng.choice([1, 1, 2]), rng.choice(["int32", "int64", "int8"])
        states = range(rng.choice([1, 1, 2]))
        self.terms = [
            [
                Term(rng.choice(_KINDS), rng.choice(states), rng.choice([1, 2, 3, -1]))
                for _ in range(rng.choice([1, 2, 3]))
            ]
            for _ in states
        ]
        self.doubled, self.after = rng.random() < 0.4, rng.random() < 0.5
        self.x = te.placeholder((self.rows, self.width), self.dtype, name="X")
        self.w = te.placeholder((self.width, self.width), self.dtype, name="W")
        self.stages = []
        self.outputs = self._outputs()

    def _compute(self, name, body, rows=None):
        return te.compute((rows or self.rows, self.width), body, name=name)

    def _number(self, value):
        return te.const(value, self.dtype)

    def _outputs(self):
        shape = self.rows, self.width
        self.given = self.x
        if self.doubled:
            self.given = self._compute("X2", lambda t, i: self.x[t, i] * self._number(2))
        self.states = [
            te.placeholder(shape, self.dtype, name=f"S{n}") for n in range(len(self.terms))
        ]
        firsts = [
            self._compute(
                f"first{n}", lambda t, i, n=n: self.given[t, i] * self._number(n + 1), self.begun
            )
            for n in range(len(self.terms))
        ]
        updates = [self._update(n, terms) for n, terms in enumerate(self.terms)]
        made = te.scan(firsts, updates, self.states, inputs=[self.x, self.w], name="Y")
        made = made if isinstance(made, list) else [made]
        if not self.after:
            return tuple(made)
        last = self.rows - 1
        return tuple(
            self._compute(f"out{n}", lambda t, i, y=y: y[t, i] - y[last - t, i])
            for n, y in enumerate(made)
        )

    def _update(self, number, terms):
        parts = [(self._part(f"p{number}{n}", term), term) for n, term in enumerate(terms)]

        def body(t, i):
            total = self._number(0)
            for part, term in parts:
                total = total + part(t, i) * self._number(term.factor)
            return total

        return self._compute(f"up{number}", body)

    def _part(self, name, term):
        """Return what a term reads at a step and a column."""
        s, x, n = self.states[term.state], self.given, self.width
        match term.kind:
            case "product":
                k = te.reduce_axis((0, n), name="k")
                body = lambda t, i: te.sum(s[t - 1, k] * self.w[i, k], axis=k)
            case "stage":
                body = lambda t, i: s[t - 1, i] * self._number(3) - x[t, i]
            case "same":
                return lambda t, i: s[t - 1, i]
            case "back":
                return lambda t, i: s[t - self.begun, i]
            case "turned":
                return lambda t, i: s[t - 1, te.floormod(i + 3, n)]
            case "flipped":
                return lambda t, i: s[t - 1, n - 1 - i]
            case "x":
                return lambda t, i: x[t, i]
            case _:
                return lambda t, i: te.if_then_else(
                    te.all(i >= 1, t > self.begun), s[te.max(t - 2, 0), te.max(i - 1, 0)], x[t, i]
                )
        self.stages.append(self._compute(name, body))
        return self.stages[-1]

    def reference(self, x, w):
        """Compute row by row."""
        x = x * x.dtype.type(2) if self.doubled else x
        found = [np.zeros_like(x) for _ in self.terms]
        for n, each in enumerate(found):
            each[: self.begun] = x[: self.begun] * x.dtype.type(n + 1)
        for t in range(self.begun, self.rows):
            rows = [
                sum(self._row(found, x, w, t, term) * x.dtype.type(term.factor) for term in terms)
                for terms in self.terms
            ]
            for each, row in zip(found, rows, strict=True):
                each[t] = row
        return tuple(y - y[::-1] for y in found) if self.after else tuple(found)

    def _row(self, found, x, w, t, term):
        s, i = found[term.state], np.arange(self.width)
        match term.kind:
            case "product":
                return (w * s[t - 1]).sum(1, dtype=x.dtype)
            case "stage":
                return s[t - 1] * x.dtype.type(3) - x[t]
            case "same":
                return s[t - 1]
            case "back":
                return s[t - self.begun]
            case "turned":
                return s[t - 1][(i + 3) % self.width]
            case "flipped":
                return s[t - 1][::-1]
            case "x":
                return x[t]
            case _:
                before = s[max(t - 2, 0)][np.maximum(i - 1, 0)]
                return np.where((i >= 1) & (t > self.begun), before, x[t])


def _columns(rng, stage, cuda, factor):
    """Split, bind and annotate the columns of an update, or of what is before or after all."""
    axis, chance = stage.op.axis[1], lambda p: rng.random() < p
    if cuda and not (factor or chance(0.2)):
        stage.bind(axis, te.thread_axis("threadIdx.x"))
        return
    if not cuda and chance(0.4):
        rng.choice([stage.parallel, stage.vectorize, stage.unroll, lambda axis: None])(axis)
        return
    outer, inner = stage.split(axis, factor=factor or rng.choice([2, 3, 4, 16]))
    if cuda:
        if chance(0.5):
            stage.bind(outer, te.thread_axis("blockIdx.x"))
        stage.bind(inner, te.thread_axis("threadIdx.x"))
    elif chance(0.7):
        rng.choice([stage.vectorize, stage.unroll])(inner)
    elif chance(0.5):
        stage.reorder(inner, outer)


def _schedule(rng, made, cuda):
    s = te.create_schedule([each.op for each in made.outputs])
    chance = lambda p: rng.random() < p
    factor = rng.choice([None, 2, 3, 4, 16])
    whole = [t for t in s.stages if t.name.startswith(("X2", "first", "up", "out"))]
    for stage in whole:
        if isinstance(stage.op, ComputeOp):
            _columns(rng, stage, cuda, factor)
    for tensor in made.stages:
        stage = s[tensor]
        reader = next(t for t in whole if tensor in t.op.input_tensors)
        if not stage.op.reduce_axis and chance(0.4):
            stage.compute_inline()
            continue
        if chance(0.7):
            stage.compute_at(reader, rng.choice(list(reader.leaf_iter_vars)))
        elif cuda:
            stage.bind(stage.op.axis[1], te.thread_axis("threadIdx.x"))
        if stage.op.reduce_axis and chance(0.5):
            outer, inner = stage.split(stage.op.reduce_axis[0], factor=rng.choice([2, 3, 4]))
            if chance(0.4):
                stage.reorder(outer, inner, stage.op.axis[0])
    read = [t for t in (made.x, made.w) if any(t in u.op.input_tensors for u in whole)]
    if read and chance(0.3):
        tensor = rng.choice(read)
        reader = rng.choice([t for t in whole if tensor in t.op.input_tensors])
        scope = rng.choice(["local", "shared"]) if cuda else "local"
        copy = s.cache_read(tensor, scope, [reader.op])
        s[copy].compute_at(reader, rng.choice(list(reader.leaf_iter_vars)))
    return s


def draw(seed):
    """Draw a recurrence with a schedule and print its kernel; what is refused has none."""
    rng = random.Random(seed)
    cuda = rng.random() < 0.3
    made = Recurrence(rng)
    workload = Workload((made.x, made.w), made.outputs, made.reference, 0)
    trial = Trial(seed, "recurrence", "cuda" if cuda else "c", workload)
    try:
        trial.schedule = _schedule(rng, made, cuda)
        target = Target(trial.language)
        trial.kernel = kernel_of_schedule(trial.schedule, workload.args, target, f"scan_{seed}")
    except (ScheduleError, LoweringError) as error:
        trial.refusal = f"{type(error).__name__}: {error}"
    return trial
