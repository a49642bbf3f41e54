"""Evaluates computes in numpy, straight from their definition: no schedule, no lowering, no C."""

import math

import numpy as np

from autotune.ir import (
    And,
    Call,
    Cast,
    FloatImm,
    IfThenElse,
    IntImm,
    Not,
    Or,
    ProducerLoad,
    Reduce,
    Select,
    Var,
)
from autotune.te import ComputeOp, ScanOp

BINARY = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide,
    "FloorDiv": np.floor_divide, "FloorMod": np.mod, "TruncMod": np.fmod,
    "TruncDiv": lambda a, b: np.abs(a) // np.abs(b) * (np.sign(a) * np.sign(b)),
    "Min": np.minimum, "Max": np.maximum, "EQ": np.equal, "NE": np.not_equal,
    "LT": np.less, "LE": np.less_equal, "GT": np.greater,
    "GE": np.greater_equal,
}  # fmt: skip
CALLS = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x), "pow": np.power,
    "exp10": lambda x: np.power(np.float32(10), x), "copysign": np.copysign,
    "exp2_flushed": np.exp2,
    "erf": np.vectorize(math.erf, otypes=[np.float32]), "round": np.round, "abs": np.abs,
    "shift_left": np.left_shift, "shift_right": np.right_shift, "nearbyint": np.rint,
    "tf32": lambda x: rounded_to_tf32(x),
}  # fmt: skip
FOLDS = {"sum": np.sum, "min": np.min, "max": np.max}


def rounded_to_tf32(x):
    """Round to 11 bits, halves away from zero."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def cut_to_tf32(x):
    """Round to 11 bits towards zero."""
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def evaluate(tensor, inputs):
    """Return the value of a tensor, given arrays for placeholders."""
    return _Evaluator(dict(inputs)).tensor(tensor)


class _Evaluator:
    def __init__(self, known):
        self.known = known
        self.bound = {}

    def tensor(self, tensor):
        if tensor not in self.known and isinstance(tensor.op, ScanOp):
            self.known.update(zip(tensor.op.outputs, self.scan(tensor.op), strict=True))
        if tensor not in self.known:
            assert isinstance(tensor.op, ComputeOp), f"no value for {tensor}"
            for name, value in zip(tensor.op.outputs, self.compute(tensor.op), strict=True):
                self.known[name] = value.astype(name.dtype)
        return self.known[tensor]

    def scan(self, op):
        """Evaluate a recurrence row by row, each time with all rows so far."""
        for read in (*op.init, *op.inputs):
            self.tensor(read)
        states = [np.zeros(each.shape, each.dtype) for each in op.outputs]
        first = op.init[0].shape[0]
        for state, init in zip(states, op.init, strict=True):
            state[:first] = self.known[init]
        for row in range(first, op.outputs[0].shape[0]):
            step = _Evaluator(
                {**self.known, **dict(zip(op.state_placeholder, states, strict=True))}
            )
            rows = [step.tensor(update)[row] for update in op.update]
            for state, values in zip(states, rows, strict=True):
                state[row] = values
        return states

    def compute(self, op):
        """Evaluate over a grid that has a dimension for each axis, reductions last."""
        for read in op.input_tensors:
            self.tensor(read)
        axes = [*op.axis, *op.reduce_axis]
        extents = [axis.extent.value for axis in axes]
        for number, axis in enumerate(axes):
            grid = [1] * len(axes)
            grid[number] = extents[number]
            start = axis.dom.min.value
            self.bound[axis.var] = np.arange(start, start + extents[number]).reshape(grid)
        if isinstance(op.body[0], Reduce):
            return self.reduction(op.body, len(op.axis), extents)
        return [np.broadcast_to(self.expr(value), extents) for value in op.body]

    def reduction(self, body, ndim, extents):
        first = body[0]
        sources = [np.broadcast_to(self.expr(s), extents) for s in first.sources]
        flat = [s.reshape(*extents[:ndim], -1) for s in sources]
        if first.combiner.name in FOLDS:
            return [FOLDS[first.combiner.name](flat[0], axis=-1)]
        state = [np.broadcast_to(self.expr(e), extents[:ndim]) for e in first.combiner.identity]
        for k in range(flat[0].shape[-1]):
            self.bound.update(zip(first.combiner.lhs, state, strict=True))
            self.bound.update(zip(first.combiner.rhs, (f[..., k] for f in flat), strict=True))
            state = [self.expr(e) for e in first.combiner.result]
        return [state[value.value_index] for value in body]

    def expr(self, node):
        match node:
            case Var():
                return self.bound[node]
            case IntImm() | FloatImm():
                return np.asarray(node.value, node.dtype)
            case Cast():
                return np.asarray(self.expr(node.value)).astype(node.dtype)
            case Call():
                function = CALLS.get(node.name) or getattr(np, node.name)
                return function(*[self.expr(a) for a in node.args])
            case Select() | IfThenElse():
                values = [self.expr(e) for e in (node.cond, node.then, node.other)]
                return np.where(*values).astype(node.dtype)
            case ProducerLoad():
                return self.load(node)
            case Not():
                return np.logical_not(self.expr(node.a))
            case And():
                return np.logical_and(self.expr(node.a), self.expr(node.b))
            case Or():
                return np.logical_or(self.expr(node.a), self.expr(node.b))
        return BINARY[type(node).__name__](self.expr(node.a), self.expr(node.b))

    def load(self, node):
        """Read elements; a guarded read may be outside, and its value is then not used."""
        array = self.known[node.tensor]
        indices = [np.asarray(self.expr(i)) for i in node.indices]
        inside = [np.clip(i, 0, n - 1) for i, n in zip(indices, array.shape, strict=True)]
        return array[tuple(np.broadcast_arrays(*inside))] if inside else array
