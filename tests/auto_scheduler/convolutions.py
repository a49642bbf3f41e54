"""Convolutions by sizes, layouts and types, with what follows them, beside numpy."""

from dataclasses import dataclass

import numpy as np

from autotune import te, topi
from autotune.auto_scheduler.search.analytical.warpgroups import WarpgroupCostModel
from tests.auto_scheduler.tensor_core_programs import TYPES, kernels, programs
from tests.fuzz.running import MANY_PRODUCTS, Job, run_batch
from tests.topi.evaluate import cut_to_tf32, rounded_to_tf32


@dataclass(frozen=True)
class Conv:
    """A convolution: sizes, then the layouts of data and filters, and what follows."""

    n: int = 2
    c: int = 16
    h: int = 8
    w: int = 8
    f: int = 32
    kernel: tuple = (3, 3)
    stride: tuple = (1, 1)
    pad: tuple = (1, 1, 1, 1)
    dilation: tuple = (1, 1)
    layout: str = "NHWC"
    filters: str = "HWIO"
    dtype: str = "float16"
    follows: bool = True

    @property
    def out(self):
        """Rows and columns of the output."""
        (kh, kw), (top, left, bottom, right) = self.kernel, self.pad
        (sh, sw), (dh, dw) = self.stride, self.dilation
        rows = (self.h + top + bottom - (kh - 1) * dh - 1) // sh + 1
        return rows, (self.w + left + right - (kw - 1) * dw - 1) // sw + 1

    def tensors(self):
        """The graph: bias and ReLU follow, rounded to the type of the data."""
        stored = "float32" if self.dtype == "tf32" else self.dtype
        image = {"N": self.n, "H": self.h, "W": self.w, "C": self.c}
        size = {"H": self.kernel[0], "W": self.kernel[1], "I": self.c, "O": self.f}
        x = te.placeholder([image[a] for a in self.layout], stored, name="x")
        weight = te.placeholder([size[a] for a in self.filters], stored, name="weight")
        top, left, bottom, right = self.pad
        before, after = {"H": top, "W": left}, {"H": bottom, "W": right}
        padded = topi.nn.pad(
            x, [before.get(a, 0) for a in self.layout], [after.get(a, 0) for a in self.layout]
        )
        sums = {a: te.reduce_axis((0, size[a]), f"r{a.lower()}") for a in self.filters if a != "O"}
        wide = te.tf32 if self.dtype == "tf32" else lambda value: value.astype("float32")

        def value(*at):
            place = dict(zip(self.layout, at, strict=True))
            filter_at = {**sums, "O": place["C"]}
            seen = {
                "N": place["N"],
                "C": sums["I"],
                "H": place["H"] * self.stride[0] + sums["H"] * self.dilation[0],
                "W": place["W"] * self.stride[1] + sums["W"] * self.dilation[1],
            }
            left = padded(*(seen[a] for a in self.layout))
            right = weight(*(filter_at[a] for a in self.filters))
            return te.sum(wide(left) * wide(right), axis=list(sums.values()))

        rows, columns = self.out
        shape = {"N": self.n, "H": rows, "W": columns, "C": self.f}
        conv = te.compute([shape[a] for a in self.layout], value, name="conv")
        if not self.follows:
            return [x, weight, conv]
        bias = te.placeholder((self.f,), stored, name="bias")
        channel = self.layout.index("C")
        out = te.compute(
            conv.shape,
            lambda *at: te.max(conv(*at) + bias[at[channel]].astype("float32"), 0.0).astype(
                stored
            ),
            name="out",
        )
        return [x, weight, bias, out]

    def wanted(self, inputs, cut=False):
        """The result in float64, in the layout of the data; TF32 is rounded, or cut."""
        if self.dtype == "tf32":
            to_tf32 = cut_to_tf32 if cut else rounded_to_tf32
            inputs = [*map(to_tf32, inputs[:2]), *inputs[2:]]
        x, weight, *bias = (each.astype(np.float64) for each in inputs)
        x = x.transpose([self.layout.index(a) for a in "NHWC"])
        weight = weight.transpose([self.filters.index(a) for a in "HWIO"])
        top, left, bottom, right = self.pad
        x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
        (rows, columns), (sh, sw), (dh, dw) = self.out, self.stride, self.dilation
        total = np.zeros((self.n, rows, columns, self.f))
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                seen = x[:, i * dh :: sh, j * dw :: sw][:, :rows, :columns]
                total += seen @ weight[i, j]
        if bias:
            total = np.maximum(total + bias[0], 0.0)
        return total.transpose(["NHWC".index(a) for a in self.layout])


def models_of(conv, kind, arch="sm_90"):
    """The task of a convolution, and those of its programs that have a kind of cost model."""
    return programs(conv.tensors(), kind, f"cuda -arch={arch}")


def check_kernels(conv, kind, calls, folder):
    """Check that some kernels of a convolution call such instructions, and are right."""
    task, (model, *others) = models_of(conv, kind)
    # Of floats threads may pass one operand.
    passed = [each for each in others if each.product.passed][:1]
    _check(conv, task, model, calls, folder)
    for each in passed:
        own = folder / "passed"
        own.mkdir()
        _check(conv, task, each, calls, own)


def _check(conv, task, model, calls, folder):
    _, found = kernels(task, model, 2)
    rng, dtype = np.random.default_rng(0), TYPES[conv.dtype]
    inputs = [
        rng.uniform(-1, 1, each.shape).astype(dtype) for each in found[0].args if each.role == "in"
    ]
    wanted = conv.wanted(inputs, cut=isinstance(model, WarpgroupCostModel))
    # Results of 16 bits are rounded once more than numpy's.
    relative = {"float16": 2**-10, "bfloat16": 2**-7, "tf32": 0}[conv.dtype] * conv.follows
    products = wanted.size * inputs[1].size // conv.f
    jobs = [Job(each, inputs, i) for i, each in enumerate(found)]
    results = run_batch(jobs, folder, optimized=products > MANY_PRODUCTS)
    for kernel, got in zip(found, results, strict=True):
        assert calls in kernel.source
        assert not isinstance(got, str), got
        np.testing.assert_allclose(got[0].astype(np.float64), wanted, rtol=relative, atol=1e-3)
