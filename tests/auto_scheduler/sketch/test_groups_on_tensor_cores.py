"""Convolutions of groups of channels on tensor cores: each group is a product of its own."""

from dataclasses import dataclass

import numpy as np
import pytest

from autotune import te, topi
from autotune.auto_scheduler.search.analytical.tensor_cores import TensorCoreCostModel
from autotune.auto_scheduler.search.analytical.warpgroups import WarpgroupCostModel
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.kernel import launch_violation
from tests.auto_scheduler.sketch.test_permuted_operands import copies_of
from tests.auto_scheduler.tensor_core_programs import TYPES, kernels, programs
from tests.fuzz.running import Job, run_batch


@dataclass(frozen=True)
class Grouped:
    """A square convolution of groups; a ReLU may follow, rounded to the type of the data."""

    n: int = 1
    c: int = 64
    size: int = 8
    f: int = 64
    groups: int = 2
    kernel: int = 3
    stride: int = 1
    dtype: str = "float16"
    follows: bool = True

    def tensors(self):
        """The graph."""
        seen, stored = self.c // self.groups, self.dtype
        x = te.placeholder((self.n, self.c, self.size, self.size), stored, name="x")
        w = te.placeholder((self.f, seen, self.kernel, self.kernel), stored, name="w")
        given = x, w, self.stride, self.kernel // 2, 1, self.groups
        conv = topi.nn.group_conv2d_nchw(*given, out_dtype="float32")
        return [x, w, topi.cast(topi.nn.relu(conv), stored) if self.follows else conv]

    def wanted(self, inputs):
        """The result in float64."""
        x, w = (each.astype(np.float64) for each in inputs)
        pad, step = self.kernel // 2, self.stride
        x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        out = (x.shape[-1] - self.kernel) // step + 1
        x = x.reshape(self.n, self.groups, -1, *x.shape[2:])
        w = w.reshape(self.groups, -1, *w.shape[1:])
        total = np.zeros((self.n, *w.shape[:2], out, out))
        for i in range(self.kernel):
            for j in range(self.kernel):
                seen = x[..., i::step, j::step][..., :out, :out]
                total += np.einsum("ngcyx,gfc->ngfyx", seen, w[..., i, j])
        total = total.reshape(self.n, self.f, out, out)
        return np.maximum(total, 0) if self.follows else total


CASES = {
    "32 wide": (TensorCoreCostModel, Grouped()),
    "stride": (TensorCoreCostModel, Grouped(n=2, size=7, stride=2)),
    "more filters": (TensorCoreCostModel, Grouped(c=32, size=6, f=128, follows=False)),
    "pointwise": (TensorCoreCostModel, Grouped(n=2, size=5, f=128, kernel=1)),
    "bfloat16": (TensorCoreCostModel, Grouped(c=96, f=96, groups=3, dtype="bfloat16")),
    "64 wide": (WarpgroupCostModel, Grouped(c=128, f=128)),
    "more rows": (WarpgroupCostModel, Grouped(n=2, c=128, size=6, f=256, kernel=1, follows=False)),
}


def drawn(model, count):
    return RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(count)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", CASES)
def test_convolutions_of_groups_compute_what_numpy_does(name, tmp_path):
    kind, conv = CASES[name]
    task, found = programs(conv.tensors(), kind)
    several = [each for each in found if len(drawn(each, 2)) == 2]
    assert {bool(copies_of(each)) for each in several} == {False, True}
    for place, model in enumerate(several):
        assert model.batch == conv.groups
        rows, made = kernels(task, model, 1)
        shape, copies = model.shape(rows), min(len(copies_of(model)), 1)
        for i, kernel in enumerate(made):
            main = kernel.calls[copies]
            assert len(kernel.calls) == copies + 1
            assert launch_violation(kernel, task.target.limits) is None
            if not getattr(shape, "in_turn", False):
                assert np.prod(main.launch.grid) == shape.blocks[i]
            assert main.launch.shared_bytes in (0, shape.shared_bytes[i])
            state = model.program.candidate(rows[i])
            assert model.program.row_of(state.transform_steps) == rows[i].tolist()
        rng, dtype = np.random.default_rng(0), TYPES[conv.dtype]
        shapes = [each.shape for each in made[0].args if each.role == "in"]
        inputs = [rng.integers(-2, 3, each).astype(dtype) for each in shapes]
        jobs = [Job(each, inputs, 10 * place + i) for i, each in enumerate(made)]
        for got in run_batch(jobs, tmp_path):
            assert not isinstance(got, str), got
            wanted = conv.wanted(inputs).astype(got[0].dtype)
            np.testing.assert_array_equal(got[0], wanted)


@pytest.mark.parametrize(
    ("conv", "kinds"),
    [
        (Grouped(c=32, f=32), ()),  # groups of 16 filters are less than a warp has columns
        (Grouped(c=96, f=96), ()),  # 48 are no multiple of these
        (Grouped(c=128, f=128), (TensorCoreCostModel, WarpgroupCostModel)),
        (Grouped(c=192, f=192), (TensorCoreCostModel,)),
        (Grouped(c=64, f=64, groups=64), ()),
        (Grouped(c=128, f=128, dtype="float32", follows=False), ()),
    ],
    ids=str,
)
def test_groups_are_multiplied_where_tiles_divide_them(conv, kinds):
    _, found = programs(conv.tensors(), (TensorCoreCostModel, WarpgroupCostModel))
    assert {type(each) for each in found} == set(kinds)


def test_heads_that_share_keys_are_a_batch_as_they_were():
    """The number of the head is used by both operands: that is a product as it stands."""
    q, k = (
        te.placeholder((heads, 64, 32), "float16", name=n) for heads, n in ((64, "q"), (2, "k"))
    )
    r = te.reduce_axis((0, 16), "r")

    def value(h, i, j):
        return te.sum(q[h, i, r].astype("float32") * k[h // 32, j, r].astype("float32"), axis=r)

    _, found = programs(
        [q, k, te.compute((64, 64, 64), value, name="scores")], TensorCoreCostModel
    )
    assert {each.batch for each in found} == {64}


def test_groups_are_copied_with_their_channels_last():
    conv = Grouped(n=2, c=128, size=14, f=128, groups=4)
    for model in programs(conv.tensors(), TensorCoreCostModel)[1]:
        copied = bool(copies_of(model))
        assert copies_of(model) == ({"x.permuted", "w.permuted"} if copied else set())
        assert model.singly == ((False, False) if copied else (True, False))
