"""Random calls by name on numbers of all kinds, compared with PyTorch."""

import ml_dtypes
import numpy as np
import torch

import autotune
from autotune.graph import TensorType
from tests.fuzz.calls import DRAWN, POSITIVE, Call
from tests.fuzz.torch_oracle import wanted

KINDS = ("normal", "normal", "special", "special", "ties", "wide", "lowest")
FLOATS = ("float32", "float16", "bfloat16", "float64")
WHOLE = ("int32", "int8", "uint8", "int64")
# Whole numbers make sense of these.
OF_WHOLE = {
    "add", "subtract", "multiply", "maximum", "minimum", "abs", "negative", "copy", "max", "min",
    "argmax", "argmin", "transpose", "take", "where", "nn.relu", "sum",
    "nn.max_pool2d", "nn.global_max_pool2d", "cumsum",
}  # fmt: skip
# Sums of infinities and of floats near overflow depend on their order; so these get tame numbers.
LINEAR = {
    "nn.conv2d", "nn.conv3d", "nn.conv2d_transpose", "nn.dense", "nn.batch_matmul",
    "nn.scaled_dot_product_attention", "nn.rows_first_attention", "nn.packed_attention",
    "nn.layer_norm", "nn.rms_norm", "nn.group_norm", "nn.instance_norm", "prod", "power",
    "sum", "mean", "cumsum", "nn.avg_pool2d", "nn.global_avg_pool2d", "nn.global_avg_pool3d",
}  # fmt: skip
# A NaN is passed over, as C's `fmax` does: see docs/templates.md.
SKIPS_NAN_ON_CPU = {"nn.max_pool2d", "nn.global_max_pool2d"}
MOVES = {"copy", "transpose", "take", "where", "negative", "abs", "max", "min"}


class Larger:
    """A generator whose extents are larger."""

    def __init__(self, rng, factor):
        self.rng, self.factor = rng, factor

    def integers(self, low, high=None):
        if high is not None and low == 1:
            most = (high - 1) * self.factor
            return int(
                self.rng.choice([1, 2, 31, 32, 64, most, int(self.rng.integers(1, most + 1))])
            )
        return self.rng.integers(low) if high is None else self.rng.integers(low, high)

    def __getattr__(self, name):
        return getattr(self.rng, name)


def draw(seed, target, names=None, most=1 << 22):
    """Draw a call that its operator takes; of a seed always the same."""
    rng = np.random.default_rng([seed, 77])
    names = names or sorted(DRAWN)
    for _ in range(200):
        name = names[rng.integers(len(names))]
        dtype = FLOATS[rng.integers(3 if "cuda" in target else 4)]
        if name in OF_WHOLE and rng.random() < 0.2:
            dtype = WHOLE[rng.integers(4)]
        source = Larger(rng, int(rng.choice([1, 1, 3, 9])))
        attributes, *shapes = DRAWN[name](source)
        types = tuple(TensorType(s, dtype) if isinstance(s, tuple) else s for s in shapes)
        if sum(each.size for each in types) > most:
            continue
        call = Call(seed, name, target, attributes, types)
        if call.is_taken and call.result.size <= most:
            return call
    raise AssertionError(f"seed {seed}: no call in 200")


def _special(x, rng, dtype, tame):
    info = ml_dtypes.finfo(dtype if dtype != "bfloat16" else ml_dtypes.bfloat16)
    odd = [np.nan, np.inf, -np.inf, -0.0, 0.0, float(info.smallest_subnormal),
           -float(info.tiny), 0.5, -2.5]  # fmt: skip
    odd += [] if tame else [float(info.max), float(info.min)]
    places = rng.random(x.shape) < rng.choice([0.02, 0.2])
    return np.where(places, rng.choice(odd, x.shape), x)


def numbers(call, rng, place, kind):
    """Return the numbers of an input."""
    shape, dtype = kind.shape, kind.dtype
    numpy = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    if call.name == "take" and place == 1:
        return rng.integers(-2, call.types[0].shape[0] + 2, shape).astype(numpy)
    if dtype not in FLOATS:
        info = np.iinfo(dtype)
        wide = rng.random() < 0.5 and call.name not in ("sum", "cumsum", "multiply")
        return (
            rng.integers(max(info.min, -9), 9, shape).astype(numpy)
            if not wide
            else (rng.integers(info.min, info.max, shape, endpoint=True, dtype=numpy))
        )
    how = KINDS[rng.integers(len(KINDS))]
    x = rng.normal(size=shape)
    if call.name in POSITIVE and rng.random() < 0.6:
        x = rng.uniform(0.5, 1.5, shape)
    linear = call.name in LINEAR
    if how == "ties":
        x = rng.integers(-2, 3, shape).astype(float)
    elif how == "wide" and call.name not in ("prod", "power"):
        x = x * 2.0 ** rng.integers(-6, 6 if dtype == "float16" and linear else 12, shape)
    elif how == "lowest" and not linear and x.ndim:
        x[..., :] = np.where(rng.random((*shape[:-1], 1)) < 0.5, -np.inf, x)
    elif how == "special" and not (linear and place > 0):
        x = _special(x, rng, dtype, linear)
    with np.errstate(over="ignore"):
        return x.astype(numpy)


def arrays(call):
    """Return the inputs of a call as tensors."""
    rng = np.random.default_rng([call.seed, 5])
    made = []
    for place, kind in enumerate(call.types):
        x = numbers(call, rng, place, kind)
        if kind.dtype == "bfloat16":
            made.append(torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16))
        else:
            made.append(torch.from_numpy(x.copy()))
    return made


def result(call, device="cpu"):
    """Return room for the result, full of what no kernel leaves there."""
    kind = call.result
    out = torch.empty(kind.shape, dtype=getattr(torch, kind.dtype), device=device)
    return out.fill_(float("nan")) if out.is_floating_point() else out.fill_(85)


def function(call, store, target=None):
    return autotune.jit(
        call.name, key=lambda *_: call.attributes, store=store, target=target or call.target
    )


def difference(call, tensors, got):
    """Return what is wrong with a result, or an empty text."""
    want = wanted(call, tensors)
    on_cpu = "cuda" not in call.target
    if not got.is_floating_point():
        expected = want.value.to(got.dtype)
        wrong = got != expected
        return _told(wrong, got, expected, want.bound)
    value, found = want.value, got.double()
    near = value.to(got.dtype).double()  # what overflows this type is infinite in it
    ok = (found - value).abs() <= want.bound
    ok |= (found == near) | (found.isnan() & value.isnan())
    # Where the bound reaches beyond the largest number, both are right.
    ok |= found.isinf() & ((value.abs() + want.bound) * torch.sign(value) == near) & near.isinf()
    odd = [x.isnan().any() for x in tensors if x.is_floating_point()]
    if on_cpu and call.name in SKIPS_NAN_ON_CPU and any(odd):
        ok |= value.isnan()
    if call.name in MOVES and call.name not in ("max", "min"):
        ok &= (found != 0) | (value != 0) | (torch.signbit(found) == torch.signbit(value))
    return _told(~ok, found, value, want.bound)


def _told(wrong, got, want, bound):
    if not wrong.any():
        return ""
    place = tuple(wrong.nonzero()[0].tolist())
    return (
        f"{int(wrong.sum())} of {wrong.numel()} places, first {place}: got {got[place].item()!r} "
        f"for {want[place].item()!r} (bound {bound[place].item():.2g})"
    )
