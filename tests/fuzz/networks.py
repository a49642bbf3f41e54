"""Random networks, and what plain numpy in double precision makes of them, operator by operator.

Nothing of the graph's own references is used: each operator is drawn with a function of its own.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from autotune.graph import Constant, TensorType, Value, Variable, apply, ops
from autotune.runtime.arrays.array import numpy_dtype

# Larger values would hide the errors of smaller ones.
_LARGEST, _MOST_ELEMENTS = 200.0, 6000


@dataclass
class Net:
    """A network as it is drawn.

    Attributes:
        values: what later operators read, oldest first.
        rules: each result with the function of its inputs that computes it exactly.
        exact: arrays in double precision.
        feeds: arrays for the inputs.
    """

    rng: np.random.Generator
    dtype: str
    layout: str
    values: list[Value] = field(default_factory=list)
    rules: list = field(default_factory=list)
    exact: dict = field(default_factory=dict)
    feeds: dict = field(default_factory=dict)

    @property
    def channel_axis(self):
        return 1 if self.layout == "NCHW" else 3

    def chance(self, probability):
        return self.rng.random() < probability

    def pick(self, choices):
        return choices[self.rng.integers(len(choices))]

    def input(self, shape):
        value = Variable(TensorType(shape, self.dtype), f"x{len(self.feeds)}")
        array = self.rng.normal(size=shape).astype(numpy_dtype(self.dtype))
        self.feeds[value], self.exact[value] = array, array.astype("f8")
        return value

    def known(self, array):
        value = Constant.of(array)
        self.exact[value] = np.asarray(array).astype("f8")
        return value

    def constant(self, *shape, low=-1.0, spread=1.0):
        drawn = self.rng.uniform(low, 1, shape) * spread
        return self.known(drawn.astype(numpy_dtype(self.dtype)))

    def weight(self, *shape):
        """Weights whose sums are about as large as the data."""
        return self.constant(*shape, spread=math.sqrt(3 / math.prod(shape[1:])))

    def node(self, op, inputs, function):
        value = apply(op, *inputs)
        self.rules.append((value, function, inputs))
        self.exact[value] = function(*[self.exact[each] for each in inputs])
        assert self.exact[value].shape == value.shape, op
        return value

    def images(self, value):
        """Return the extents N, C, H, W of images."""
        n, *rest = value.shape
        return (n, *rest) if self.layout == "NCHW" else (n, rest[2], rest[0], rest[1])

    def first(self, array):
        return array if self.layout == "NCHW" else array.transpose(0, 3, 1, 2)

    def back(self, array):
        return array if self.layout == "NCHW" else array.transpose(0, 2, 3, 1)


def windows(array, kernel, steps, holes):
    """Return the elements of an image at each place of a window: [kh * kw][n, c, oh, ow]."""
    extents = [
        (size - (k - 1) * hole - 1) // step + 1
        for size, k, step, hole in zip(array.shape[2:], kernel, steps, holes, strict=True)
    ]
    found = []
    for at in np.ndindex(*kernel):
        cut = [
            slice(a * hole, a * hole + (n - 1) * step + 1, step)
            for a, n, step, hole in zip(at, extents, steps, holes, strict=True)
        ]
        found.append(array[:, :, cut[0], cut[1]])
    return found


def convolved(data, weight, steps, sides, holes, groups):
    top, left, bottom, right = sides
    data = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
    outs, own = weight.shape[:2]
    places = windows(data, weight.shape[2:], steps, holes)
    flat = weight.reshape(outs, own, -1)
    made = []
    for out in range(outs):
        begin = out // (outs // groups) * own
        terms = [
            place[:, begin + c] * flat[out, c, n]
            for n, place in enumerate(places)
            for c in range(own)
        ]
        made.append(sum(terms))
    return np.stack(made, 1)


def convolution(net, x):
    _, c, h, w = net.images(x)
    kernel = net.pick([(1, 1), (1, 1), (3, 3), (2, 3), (1, 3)])
    holes = net.pick([(1, 1), (1, 1), (1, 1), (2, 1), (2, 2)])
    steps = net.pick([(1, 1), (1, 1), (2, 2), (1, 2)])
    sides = (kernel[0] // 2, kernel[1] // 2) * 2
    if net.chance(0.3):
        sides = tuple(int(n) for n in net.rng.integers(0, 3, 4))
    room = h + sides[0] + sides[2], w + sides[1] + sides[3]
    if any(n <= (k - 1) * d for n, k, d in zip(room, kernel, holes, strict=True)):
        kernel = (1, 1)
    groups, outs = net.pick(
        [(1, 1), (1, 3), (1, 8), (1, 16), (c, c), (c, 2 * c), (1, 4) if c % 2 else (2, 4)]
    )
    filters = weight = net.weight(outs, c // groups, *kernel)
    letters = "OIHW"
    if net.layout == "NHWC":
        letters = "HWOI" if groups == c == outs > 1 else "HWIO"
        axes = tuple("OIHW".index(letter) for letter in letters)
        filters = net.node(ops.Transpose(axes), [weight], lambda a: a.transpose(axes))
    order = [letters.index(letter) for letter in "OIHW"]

    def function(data, weight):
        found = convolved(net.first(data), weight.transpose(order), steps, sides, holes, groups)
        return net.back(found)

    op = ops.Conv2d(steps, sides, holes, groups, net.layout, letters)
    return biased(net, net.node(op, [x, filters], function), net.channel_axis)


def biased(net, x, axis):
    if net.chance(0.4):
        return x
    shape = [-1 if n == axis else 1 for n in range(len(x.shape))]
    bias = net.constant(x.shape[axis])
    return net.node(ops.BiasAdd(axis), [x, bias], lambda a, b: a + b.reshape(shape))


def dense(net, x):
    if len(x.shape) != 2:
        x = net.node(ops.BatchFlatten(), [x], lambda a: a.reshape(a.shape[0], -1))
    if x.shape[1] > 600:
        return None
    weight = net.weight(net.pick([1, 5, 8, 16]), x.shape[1])
    return biased(net, net.node(ops.Dense(), [x, weight], lambda a, b: a @ b.T), 1)


def pooled(net, x):
    kernel, step, side = net.pick([2, 3]), net.pick([1, 2]), net.pick([0, 1])
    if min(net.images(x)[2:]) + 2 * side < kernel:
        return None
    sides = ((0, 0), (0, 0), (side, side), (side, side))

    def parts(array, outside):
        padded = np.pad(net.first(array), sides, constant_values=outside)
        return np.stack(windows(padded, (kernel, kernel), (step, step), (1, 1)))

    window = (kernel, kernel), (step, step), (side, side)
    if net.chance(0.5):
        op = ops.MaxPool2d(*window, layout=net.layout)
        return net.node(op, [x], lambda a: net.back(parts(a, -np.inf).max(0)))
    whole = net.chance(0.5)

    def mean(array):
        count = kernel**2 if whole else parts(np.ones_like(array), 0.0).sum(0)
        return net.back(parts(array, 0.0).sum(0) / count)

    op = ops.AvgPool2d(*window, layout=net.layout, count_include_pad=whole)
    return net.node(op, [x], mean)


def pooled_whole(net, x):
    axes = (2, 3) if net.layout == "NCHW" else (1, 2)
    if net.chance(0.5):
        op = ops.GlobalAvgPool2d(net.layout)
        return net.node(op, [x], lambda a: a.mean(axes, keepdims=True))
    return net.node(ops.GlobalMaxPool2d(net.layout), [x], lambda a: a.max(axes, keepdims=True))


def limited(net, x):
    op, low, high = net.pick(
        [(ops.Relu(), 0, np.inf), (ops.Clip(0.0, 6.0), 0, 6), (ops.Clip(-0.5, 1.0), -0.5, 1)]
    )
    return net.node(op, [x], lambda a: a.clip(low, high))


def unary(net, x):
    op, function = net.pick(
        [
            (ops.Tanh(), np.tanh),
            (ops.Sigmoid(), lambda a: 1 / (1 + np.exp(-a))),
            (ops.Negative(), np.negative),
            (ops.Abs(), np.abs),
            (ops.LeakyRelu(0.1), lambda a: np.where(a > 0, a, 0.1 * a)),
            (ops.Erf(), np.vectorize(math.erf, otypes=["f8"])),
        ]
    )
    return net.node(op, [x], function)


def binary(net, x):
    op, function = net.pick(
        [(ops.Add(), np.add), (ops.Add(), np.add), (ops.Multiply(), np.multiply),
         (ops.Subtract(), np.subtract), (ops.Maximum(), np.maximum)]
    )  # fmt: skip
    if net.chance(0.6):
        y = net.pick([each for each in net.values if each.shape == x.shape])
    else:
        axis = min(net.channel_axis, len(x.shape) - 1)
        y = net.constant(*[n if i == axis else 1 for i, n in enumerate(x.shape)])
    return net.node(op, [x, y] if net.chance(0.5) else [y, x], function)


def joined(net, x):
    rank = len(x.shape)
    axis = int(net.rng.integers(1, rank))
    fits = [
        each
        for each in net.values
        if len(each.shape) == rank
        and all(
            i == axis or a == b for i, (a, b) in enumerate(zip(each.shape, x.shape, strict=True))
        )
    ]
    parts = [x, *(net.pick(fits) for _ in range(net.pick([1, 2])))]
    return net.node(ops.Concatenate(axis), parts, lambda *a: np.concatenate(a, axis))


def moved(net, x):
    shape, rank = list(x.shape), len(x.shape)
    kind, axis = net.pick(["transposed", "reshaped", "sliced", "padded"]), net.pick(range(rank))
    if kind == "transposed":
        axes = tuple(int(n) for n in net.rng.permutation(rank))
        return net.node(ops.Transpose(axes), [x], lambda a: a.transpose(axes))
    if kind == "reshaped":
        new = (*shape[: rank - 2], shape[-1], shape[-2])
        return net.node(ops.Reshape(new), [x], lambda a: a.reshape(new))
    if kind == "padded":
        pads = tuple(
            (net.pick([0, 1]), net.pick([0, 1])) if n > 1 else (0, 0) for n in range(rank)
        )
        return net.node(ops.Pad(pads, 0.5), [x], lambda a: np.pad(a, pads, constant_values=0.5))
    if shape[axis] < 3:
        return None
    begin, steps = [0] * rank, [1] * rank
    begin[axis], steps[axis] = net.pick([0, 1]), net.pick([1, 2])
    cut = tuple(slice(b, e, s) for b, e, s in zip(begin, shape, steps, strict=True))
    op = ops.StridedSlice(tuple(begin), tuple(shape), tuple(steps))
    return net.node(op, [x], lambda a: a[cut])


def softmax(net, x):
    axis = net.pick([1, -1])

    def exponentials(array):
        return np.exp(array - array.max(axis, keepdims=True))

    def log(array):
        shifted = array - array.max(axis, keepdims=True)
        return shifted - np.log(exponentials(array).sum(axis, keepdims=True))

    if net.chance(0.3):
        return net.node(ops.LogSoftmax(axis), [x], log)
    whole = lambda a: exponentials(a) / exponentials(a).sum(axis, keepdims=True)
    return net.node(ops.Softmax(axis), [x], whole)


def layer_norm(net, x):
    axis = net.pick([-1, 1])
    shape = [1] * len(x.shape)
    shape[axis] = n = x.shape[axis]
    if n < 3:
        return None

    def function(a, gamma, beta):
        apart = a - a.mean(axis, keepdims=True)
        spread = np.sqrt(a.var(axis, keepdims=True) + 0.01)
        return apart / spread * gamma.reshape(shape) + beta.reshape(shape)

    return net.node(ops.LayerNorm(axis, 0.01), [x, net.constant(n), net.constant(n)], function)


def batch_norm(net, x):
    axis = min(net.channel_axis, len(x.shape) - 1)
    shape = [1] * len(x.shape)
    shape[axis] = n = x.shape[axis]
    vectors = [*(net.constant(n) for _ in range(3)), net.constant(n, low=0.3)]

    def function(a, *vectors):
        gamma, beta, mean, variance = (each.reshape(shape) for each in vectors)
        return (a - mean) / np.sqrt(variance + 1e-3) * gamma + beta

    return net.node(ops.BatchNorm(axis, 1e-3), [x, *vectors], function)


def reduced(net, x):
    op, function = net.pick([(ops.Sum, np.sum), (ops.Mean, np.mean), (ops.Max, np.max)])
    axis, keep = int(net.rng.integers(1, len(x.shape))), net.chance(0.7) or len(x.shape) < 3
    return net.node(op((axis,), keep), [x], lambda a: function(a, axis=axis, keepdims=keep))


OF_IMAGES = (convolution, convolution, convolution, convolution, pooled, pooled_whole)
OF_ALL = (dense, limited, unary, binary, binary, joined, moved, softmax, layer_norm, batch_norm,
          reduced)  # fmt: skip


def begun(rng, dtype, kind=Net, first=0.6):
    """Return a network with one or two inputs, of images with channels ``first`` or last."""
    net = kind(rng, dtype, "NCHW" if rng.random() < first else "NHWC")
    n, c, h, w = net.pick([1, 2, 3]), net.pick([2, 3, 4, 8]), net.pick([4, 5, 8]), net.pick([4, 7])
    for _ in range(net.pick([1, 2])):
        net.values.append(net.input((n, c, h, w) if net.layout == "NCHW" else (n, h, w, c)))
    return net


def small(net, value):
    """Whether later operators may read a value."""
    return math.prod(value.shape) <= _MOST_ELEMENTS and abs(net.exact[value]).max() <= _LARGEST


def network(seed, dtype):
    """Draw a network of floats; return it with its outputs."""
    net = begun(np.random.default_rng(seed), dtype)
    for _ in range(net.rng.integers(2, 9)):
        x = net.values[-1] if net.chance(0.7) else net.pick(net.values)
        made = net.pick([*OF_IMAGES, *OF_ALL] if len(x.shape) == 4 else OF_ALL)(net, x)
        if made is not None and small(net, made):
            net.values.append(made)
    return net, [net.values[-1], *(net.pick(net.values) for _ in range(net.rng.integers(3)))]
