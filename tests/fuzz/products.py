"""Products and convolutions that tensor cores multiply, of integers whose sums are exact."""

from dataclasses import dataclass, replace

import numpy as np

from tests.auto_scheduler.convolutions import TYPES, Conv
from tests.auto_scheduler.sketch.test_groups_on_tensor_cores import Grouped
from tests.auto_scheduler.sketch.test_tensor_cores import product, wanted_of
from tests.fuzz.workloads import Workload

# Multiply-adds of one workload at most: a product of one tile of a warpgroup has 262,144.
MOST_WORK = 450_000


@dataclass(frozen=True)
class Exact(Workload):
    """A workload whose inputs are small integers."""

    tolerance: float = 0.0

    def arrays(self, seed):
        """Return random input arrays."""
        rng = np.random.default_rng(seed)
        shapes = [tuple(map(int, each.shape)) for each in self.inputs]
        return [
            rng.integers(-2, 3, shape).astype(TYPES.get(each.dtype, each.dtype))
            for shape, each in zip(shapes, self.inputs, strict=True)
        ]


def _exact(tensors, wanted):
    *inputs, output = tensors
    dtype = TYPES.get(output.dtype, output.dtype)
    return Exact(tuple(inputs), (output,), lambda *arrays: wanted(arrays).astype(dtype))


def matrices(rng):
    """A product: of whole or of cut tiles, either operand along or across, rounded or not."""
    whole = rng.random() < 0.5
    m = rng.choice([16, 32, 64, 96]) if whole else rng.randrange(16, 110)
    n = rng.choice([32, 64, 96]) if whole else rng.randrange(32, 110)
    k = rng.choice([16, 32, 64, 128, 256, *(rng.randrange(16, 200) for _ in range(3))])
    batch = rng.choice([None, None, 2, 3])
    if m * n * k * (batch or 1) > MOST_WORK:
        return matrices(rng)
    options = {
        "dtype": rng.choice(list(TYPES)),
        "cast": rng.random() < 0.5,
        "transposed": rng.random() < 0.5,
        "across": rng.random() < 0.5,
        "batch": batch,
    }
    options["cast"] &= options["dtype"] != "tf32"
    return _exact(product(m, n, k, **options), lambda pair: wanted_of(options, *pair))


def convolution(rng):
    """A convolution of any sizes and layouts, with bias and ReLU or without."""
    kernel = rng.choice([1, 1, 2, 3, 3, 5]), rng.choice([1, 1, 2, 3, 3, 4])
    dilation = rng.choice([1, 1, 2]), rng.choice([1, 1, 2])
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    conv = Conv(
        n=rng.choice([1, 1, 2, 3, 8]),
        c=rng.choice([3, 4, 16, 16, 24, 32, 64, 128]),
        h=rng.randrange(reach[0], 15),
        w=rng.randrange(reach[1], 17),
        f=rng.choice([32, 40, 64, 64, 67, 72, 128]),
        kernel=kernel,
        stride=(rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2, 3])),
        pad=tuple(rng.choice([0, 1, 2]) for _ in range(4)),
        dilation=dilation,
        layout=rng.choice(["NHWC", "NHWC", "NCHW", "HWNC", "HWCN"]),
        filters=rng.choice(["HWIO", "OHWI", "OIHW"]),
        dtype=rng.choice(list(TYPES)),
        follows=rng.random() < 0.6,
    )
    conv = replace(conv, pad=(0, 0, 0, 0)) if rng.random() < 0.3 else conv
    places, steps = conv.n * conv.out[0] * conv.out[1], conv.c * kernel[0] * kernel[1]
    if places < 16 or steps < 16 or places * steps * conv.f > MOST_WORK:
        return convolution(rng)
    return _exact(conv.tensors(), conv.wanted)


def groups(rng):
    """A convolution of groups of channels, with a ReLU or without."""
    count, kernel = rng.choice([2, 2, 3, 4]), rng.choice([1, 1, 2, 3])
    conv = Grouped(
        n=rng.choice([1, 2, 3]),
        c=count * rng.choice([4, 8, 16, 24, 32, 64]),
        size=rng.randrange(4, 12),
        f=count * rng.choice([32, 32, 64, 96, 128]),
        groups=count,
        kernel=kernel,
        stride=rng.choice([1, 1, 2]),
        dtype=rng.choice(["float16", "bfloat16"]),
        follows=rng.random() < 0.6,
    )
    out = (conv.size + 2 * (kernel // 2) - kernel) // conv.stride + 1
    places, steps = conv.n * out * out, conv.c // count * kernel * kernel
    if places < 16 or steps < 16 or places * steps * conv.f > MOST_WORK:
        return groups(rng)
    return _exact(conv.tensors(), conv.wanted)


PRODUCTS = {each.__name__: each for each in (matrices, convolution, groups)}
