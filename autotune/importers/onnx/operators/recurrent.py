"""Recurrent layers, unrolled: one product for all inputs, and one a step for the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.graph import Operator, Value, ops
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.operators.activations import elu, hard_sigmoid, softplus
from autotune.importers.onnx.operators.control import at_index
from autotune.importers.onnx.operators.shapes import part

# Most steps that are unrolled.
_MOST = 2048


@dataclass
class _Activations:
    """The functions that the attributes name, in order, each with its coefficients."""

    call: Call
    names: Sequence[str]
    alphas: list[float] = field(default_factory=list)
    betas: list[float] = field(default_factory=list)

    def take(self, name: str) -> Callable[[Value], Value]:
        """Return a function of a name, with the next coefficients."""
        call = self.call
        plain: dict[str, type[Operator]] = {
            "Relu": ops.Relu,
            "Tanh": ops.Tanh,
            "Sigmoid": ops.Sigmoid,
        }
        if name in plain:
            return lambda x: call.apply(plain[name](), x)
        if name == "Softplus":
            return lambda x: softplus(call, x)
        if name == "Softsign":
            return lambda x: call.apply(
                ops.Divide(), x, call.binary(ops.Add, call.apply(ops.Abs(), x), 1)
            )
        defaults = {
            "LeakyRelu": (0.01, 0.0), "Elu": (1.0, 0.0), "HardSigmoid": (0.2, 0.5),
            "ThresholdedRelu": (1.0, 0.0), "Affine": (1.0, 0.0), "ScaledTanh": (1.0, 1.0),
        }  # fmt: skip
        if name not in defaults:
            call.refuse(f"activation {name!r} is not supported")
        first, second = defaults[name]
        alpha = self.alphas.pop(0) if self.alphas else first
        has_beta = name in ("HardSigmoid", "Affine", "ScaledTanh")
        beta = self.betas.pop(0) if self.betas and has_beta else second
        return lambda x: self._of(name, x, alpha, beta)

    def _of(self, name: str, x: Value, alpha: float, beta: float) -> Value:
        call = self.call
        match name:
            case "LeakyRelu":
                return call.apply(ops.LeakyRelu(alpha), x)
            case "Elu":
                return elu(call, x, alpha)
            case "HardSigmoid":
                return hard_sigmoid(call, x, alpha, beta)
            case "Affine":
                return call.binary(ops.Add, call.binary(ops.Multiply, x, alpha), beta)
            case "ScaledTanh":
                inner = call.apply(ops.Tanh(), call.binary(ops.Multiply, x, beta))
                return call.binary(ops.Multiply, inner, alpha)
        above = call.cast(call.binary(ops.Greater, x, alpha), x.dtype)
        return call.apply(ops.Multiply(), x, above)


@dataclass(frozen=True)
class _Layer:
    """One direction of a layer.

    Attributes:
        x: inputs [steps, batch, size].
        weight: of the inputs, [gates * hidden, size].
        recurrence: of the state, [gates * hidden, hidden].
        bias: of both, [2 * gates * hidden]; None for zeros.
        functions: activations.
        lengths: how many steps each of the batch has; None for all.
        backwards: whether the last step is the first.
    """

    call: Call
    x: Value
    weight: Value
    recurrence: Value
    bias: Value | None
    functions: Sequence[Callable[[Value], Value]]
    lengths: Value | None
    backwards: bool

    @property
    def hidden(self) -> int:
        return self.recurrence.shape[1]

    def limited(self, x: Value) -> Value:
        """Limit what goes into activations, if the layer says so."""
        clip = self.call.attribute("clip", 0.0)
        return self.call.apply(ops.Clip(-clip, clip), x) if clip else x

    def gates(self, x: Value, names: int) -> list[Value]:
        """Cut columns into parts of a state's size."""
        return list(self.call.several(ops.Split(names, 1), x)) if names > 1 else [x]

    def products(self) -> list[Value]:
        """Return the inputs of each step times the weight, and the bias that is always added."""
        call, (steps, batch, size) = self.call, self.x.shape
        flat = call.reshape(self.x, (steps * batch, size))
        out = call.apply(ops.Dense(), flat, self.weight)
        if (bias := self.input_bias()) is not None:
            out = call.apply(ops.BiasAdd(-1), out, bias)
        whole = call.reshape(out, (steps, batch, self.weight.shape[0]))
        return [at_index(call, whole, 0, step) for step in range(steps)]

    def halves(self) -> tuple[Value, Value] | None:
        """Return the biases of the inputs and of the state."""
        if self.bias is None:
            return None
        first, second = self.call.several(ops.Split(2, 0), self.bias)
        return first, second

    def input_bias(self) -> Value | None:
        """Return the sum of both biases; that of a GRU may be added to the state's product."""
        halves = self.halves()
        if halves is None:
            return None
        if self.call.node.kind == "GRU" and self.call.attribute("linear_before_reset", 0):
            return halves[0]
        return self.call.apply(ops.Add(), *halves)

    def kept(self, step: int, new: Value, old: Value) -> Value:
        """Return the old state where a sequence has ended before a step."""
        if self.lengths is None:
            return new
        call = self.call
        going = call.binary(ops.Greater, self.lengths, step)
        mask = call.broadcast(call.reshape(going, (new.shape[0], 1)), new.shape)
        return call.apply(ops.Where(), mask, new, old)

    def output(self, step: int, state: Value) -> Value:
        """Return a step's output: zeros where the sequence has ended."""
        return self.kept(step, state, self.zeros(state.shape))

    def zeros(self, shape: Sequence[int]) -> Value:
        """Return zeros in the dtype of the inputs."""
        kind = "float32" if self.x.dtype == "bfloat16" else self.x.dtype
        return self.call.cast(self.call.as_value(np.zeros(tuple(shape), kind)), self.x.dtype)

    def run(
        self, cell: Callable[[Value, list[Value]], list[Value]], state: list[Value]
    ) -> tuple[list[Value], list[Value]]:
        """Return the output of each step, and the last state."""
        outputs: dict[int, Value] = {}
        products = self.products()
        steps = range(len(products))
        for step in reversed(steps) if self.backwards else steps:
            new = cell(products[step], state)
            state = [self.kept(step, a, b) for a, b in zip(new, state, strict=True)]
            outputs[step] = self.output(step, state[0])
        return [outputs[step] for step in steps], state

    def times_state(self, h: Value) -> Value:
        """Return the state times its weight."""
        return self.call.apply(ops.Dense(), h, self.recurrence)


def _rnn_cell(layer: _Layer) -> Callable[[Value, list[Value]], list[Value]]:
    call, (f,) = layer.call, layer.functions

    def cell(product: Value, state: list[Value]) -> list[Value]:
        total = call.apply(ops.Add(), layer.times_state(state[0]), product)
        return [f(layer.limited(total))]

    return cell


def _gru_cell(layer: _Layer) -> Callable[[Value, list[Value]], list[Value]]:
    """Return the step of a GRU, whose gates are update, reset and hidden."""
    call, (f, g) = layer.call, layer.functions
    size, halves = layer.hidden, layer.halves()
    after = bool(call.attribute("linear_before_reset", 0))
    rows = part(call, layer.recurrence, 0, 0, 2 * size)
    hidden_rows = part(call, layer.recurrence, 0, 2 * size, 3 * size)

    def cell(product: Value, state: list[Value]) -> list[Value]:
        (h,) = state
        own = part(call, product, 1, 0, 2 * size)
        total = call.apply(ops.Add(), call.apply(ops.Dense(), h, rows), own)
        if after and halves:
            total = call.apply(ops.BiasAdd(-1), total, part(call, halves[1], 0, 0, 2 * size))
        z, r = layer.gates(f(layer.limited(total)), 2)
        if after:
            inner = call.apply(ops.Dense(), h, hidden_rows)
            if halves:
                inner = call.apply(
                    ops.BiasAdd(-1), inner, part(call, halves[1], 0, 2 * size, 3 * size)
                )
            inner = call.apply(ops.Multiply(), r, inner)
        else:
            inner = call.apply(ops.Dense(), call.apply(ops.Multiply(), r, h), hidden_rows)
        own = part(call, product, 1, 2 * size, 3 * size)
        new = g(layer.limited(call.apply(ops.Add(), inner, own)))
        # (1 - z) * new + z * h
        apart = call.apply(ops.Multiply(), z, call.apply(ops.Subtract(), h, new))
        return [call.apply(ops.Add(), new, apart)]

    return cell


def _lstm_cell(
    layer: _Layer, peepholes: Value | None
) -> Callable[[Value, list[Value]], list[Value]]:
    """Return the step of an LSTM, whose gates are input, output, forget and cell."""
    call, (f, g, h) = layer.call, layer.functions
    peeps = None if peepholes is None else call.several(ops.Split(3, 0), peepholes)

    def seen(gate: Value, state: Value, number: int) -> Value:
        if peeps is None:
            return gate
        scaled = call.apply(ops.Multiply(), state, call.reshape(peeps[number], (1, layer.hidden)))
        return call.apply(ops.Add(), gate, scaled)

    def cell(product: Value, state: list[Value]) -> list[Value]:
        hidden, memory = state
        total = call.apply(ops.Add(), layer.times_state(hidden), product)
        i, o, forget, c = layer.gates(total, 4)
        i = f(layer.limited(seen(i, memory, 0)))
        if call.attribute("input_forget", 0):
            forget = call.apply(ops.Subtract(), call.number(1, i), i)
        else:
            forget = f(layer.limited(seen(forget, memory, 2)))
        kept = call.apply(ops.Multiply(), forget, memory)
        added = call.apply(ops.Multiply(), i, g(layer.limited(c)))
        memory = call.apply(ops.Add(), kept, added)
        o = f(layer.limited(seen(o, memory, 1)))
        return [call.apply(ops.Multiply(), o, h(memory)), memory]

    return cell


# Of each kind: the activations that are used if none is named, and how many states there are.
_KINDS = {
    "RNN": (("Tanh",), 1),
    "GRU": (("Sigmoid", "Tanh"), 1),
    "LSTM": (("Sigmoid", "Tanh", "Tanh"), 2),
}


def _layers(call: Call, x: Value) -> list[_Layer]:
    """Return the layer of each direction."""
    defaults, _ = _KINDS[call.node.kind]
    direction = call.attribute("direction", "forward")
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    if direction not in backwards:
        call.refuse(f"direction must be one of {', '.join(backwards)}, got {direction!r}")
    ways = backwards[direction]
    names = call.attribute("activations", ()) or defaults * len(ways)
    known = _Activations(
        call, names, list(call.attribute("activation_alpha", ()) or ()),
        list(call.attribute("activation_beta", ()) or ()),
    )  # fmt: skip
    functions = [known.take(name) for name in names]
    count = len(defaults)
    return [
        _Layer(
            call, x, at_index(call, call.value(1), 0, i), at_index(call, call.value(2), 0, i),
            at_index(call, call.value(3), 0, i) if call.has(3) else None,
            functions[i * count : (i + 1) * count], _lengths(call, x), back,
        )
        for i, back in enumerate(ways)
    ]  # fmt: skip


def _lengths(call: Call, x: Value) -> Value | None:
    """Return the lengths of sequences; None where all are known to be whole."""
    if not call.has(4):
        return None
    known = call.numbers(call.operand(4))
    if known is not None and (known == x.shape[0]).all():
        return None
    return call.value(4)


def _recurrent(call: Call) -> list[Value]:
    """Return outputs of all steps, and the last states."""
    _, count = _KINDS[call.node.kind]
    x, batch_first = call.value(0), bool(call.attribute("layout", 0))
    x = call.transpose(x, (1, 0, 2)) if batch_first else x
    if x.shape[0] > _MOST:
        call.refuse(f"more than {_MOST} steps are not unrolled, got {x.shape[0]}")
    layers = _layers(call, x)
    outputs, states = [], []
    for i, layer in enumerate(layers):
        state = [_first(call, layer, i, 5 + number, batch_first) for number in range(count)]
        peepholes = at_index(call, call.value(7), 0, i) if call.has(7) else None
        cells = {"RNN": _rnn_cell, "GRU": _gru_cell}
        cell = cells[call.node.kind](layer) if count == 1 else _lstm_cell(layer, peepholes)
        own, last = layer.run(cell, state)
        outputs.append(call.apply(ops.Stack(0), *own))
        states.append(last)
    whole = call.apply(ops.Stack(1), *outputs)
    lasts = [call.apply(ops.Stack(0), *[each[n] for each in states]) for n in range(count)]
    if batch_first:
        whole = call.transpose(whole, (2, 0, 1, 3))
        lasts = [call.transpose(each, (1, 0, 2)) for each in lasts]
    return [whole, *lasts]


def _first(call: Call, layer: _Layer, direction: int, index: int, batch_first: bool) -> Value:
    """Return the state before the first step."""
    batch = layer.x.shape[1]
    if not call.has(index):
        return layer.zeros((batch, layer.hidden))
    return at_index(call, call.value(index), 1 if batch_first else 0, direction)


CONVERTERS: dict[str, Converter] = {"RNN": _recurrent, "GRU": _recurrent, "LSTM": _recurrent}
