"""Random networks of 8-bit integers, as quantisers write them: in floats between two roundings."""

import math
from dataclasses import dataclass, field

import numpy as np

from autotune.graph import ops
from tests.fuzz.networks import (
    Net,
    begun,
    binary,
    convolution,
    dense,
    joined,
    limited,
    moved,
    pooled,
    pooled_whole,
    small,
)


def summed(net, x):
    """A residual: of what has the same shape the latest, as layers in a row add it."""
    y = [each for each in net.values if each.shape == x.shape][-2:][0]
    return net.node(ops.Add(), [x, y] if net.chance(0.5) else [y, x], np.add)


_OF_IMAGES = (*(convolution,) * 6, summed, summed, pooled, pooled_whole)
_OF_ALL = (dense, summed, limited, binary, joined, moved)
_CENTRES = {"int8": 0, "uint8": 128}


@dataclass
class Steps:
    """The steps of bytes: their size, and the number of 0."""

    size: float
    zero: int
    dtype: str

    @property
    def ends(self):
        info = np.iinfo(self.dtype)
        return info.min, info.max


@dataclass
class BytesNet(Net):
    """A network whose weights, and what its operators read, are rounded to steps.

    Attributes:
        steps: of the floats behind each rounding, for what moves them.
        whole: the results of roundings, with their steps.
    """

    steps: dict = field(default_factory=dict)
    whole: dict = field(default_factory=dict)

    def weight(self, *shape):
        drawn = self.rng.uniform(-1, 1, shape) * math.sqrt(3 / math.prod(shape[1:]))
        own = (-1, *[1] * (len(shape) - 1))
        most = abs(drawn).reshape(shape[0], -1).max(1) if self.chance(0.7) else abs(drawn).max()
        scale = np.asarray(most / 127, "f4")
        whole = np.rint(drawn / (scale.reshape(own) if scale.ndim else scale)).clip(-127, 127)
        zero = 128 if self.chance(0.15) else 0
        dtype = "uint8" if zero else "int8"
        given = (whole + zero).astype(dtype), scale, np.full(scale.shape, zero, dtype)

        def function(data, scale, zero):
            apart = data - (zero.reshape(own) if zero.ndim else zero)
            return apart * (scale.reshape(own) if scale.ndim else scale)

        return self.node(ops.Dequantize(0), [self.known(each) for each in given], function)

    def rounded(self, value, steps=None):
        """Return floats that are rounded to steps: given ones, or such as fit their range."""
        steps = steps or self.fitting(self.exact[value])
        scale, zero = (
            self.known(np.float32(steps.size)),
            self.known(np.asarray(steps.zero, steps.dtype)),
        )
        op = ops.Quantize(dtype=steps.dtype)
        whole = self.node(
            op, [value, scale, zero], lambda a, s, z: np.clip(np.rint(a / s) + z, *steps.ends)
        )
        made = self.node(ops.Dequantize(), [whole, scale, zero], lambda a, s, z: (a - z) * s)
        self.whole[whole] = self.steps[made] = steps
        return made

    def fitting(self, values):
        dtype = self.pick(list(_CENTRES))
        low, high = min(float(values.min()), 0), max(float(values.max()), 0)
        size = max(high - low, 1e-6) / 255 * self.pick([1, 1, 1, 0.5, 2])
        if self.chance(0.2):
            size = 2.0 ** round(math.log2(size))  # sums have halves then
        size, info = float(np.float32(size)), np.iinfo(dtype)
        zero = int(np.clip(round(info.min - low / size), info.min, info.max))
        return Steps(size, _CENTRES[dtype] if self.chance(0.2) else zero, dtype)


def network(seed):
    """Draw a network of bytes; return it with the roundings that are its outputs."""
    net = begun(np.random.default_rng(seed), "float32", BytesNet, first=0.9)
    net.values = [net.rounded(each) for each in net.values]
    for _ in range(net.rng.integers(2, 9)):
        x = net.values[-1] if net.chance(0.7) else net.pick(net.values)
        operator = net.pick([*_OF_IMAGES, *_OF_ALL] if len(x.shape) == 4 else _OF_ALL)
        made = operator(net, x)
        if made is None or not small(net, made):
            continue
        if operator is not moved and net.chance(0.5):
            made = limited(net, made)
        same = operator is moved and net.chance(0.8)
        net.values.append(net.rounded(made, net.steps.get(x) if same else None))
    return net, list(net.whole)
