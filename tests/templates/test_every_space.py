"""Spaces of templates for shapes of every size: none is empty, and defaults lie in them."""

import autotune.templates  # noqa: F401 - registers the tasks
from autotune.templates.cpu_tiles import vector_unit
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create

TARGET = Target("cuda -arch=sm_90")
extent = st.integers(1, 40)
layout = st.sampled_from(["NCHW", "NHWC"])
CASES = st.one_of(
    st.tuples(
        st.just("depthwise_conv2d"),
        st.tuples(
            st.integers(1, 3), extent, extent, extent, st.integers(1, 3), st.integers(1, 5),
            st.integers(1, 5), st.integers(1, 3), st.just(2), st.booleans(), st.just("relu6"),
            st.booleans(), st.booleans(), st.just(1), layout,
        ),
    ),
    st.tuples(st.sampled_from(["layer_norm", "log_softmax", "cumsum"]), st.tuples(extent, extent)),
    st.tuples(
        st.just("reduce"),
        st.tuples(st.sampled_from(["sum", "argmax"]), extent, st.integers(1, 3000), extent),
    ),
    st.tuples(
        st.just("transpose"),
        st.lists(extent, min_size=1, max_size=4).flatmap(
            lambda shape: st.tuples(st.just(shape), st.permutations(range(len(shape))))
        ),
    ),
    st.tuples(st.just("take_rows"), st.tuples(extent, extent, extent)),
    st.tuples(
        st.just("elementwise"),
        st.tuples(st.just("a + 1"), st.tuples(st.tuples(st.just("a"), st.tuples(extent, extent)))),
    ),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(CASES)
def test_every_shape_has_configurations_and_its_default_is_one(case):
    name, args = case
    task = create(f"{name}.cuda", args, TARGET)
    assert len(task.config_space) >= 1
    default = task.default()
    assert default is not None
    kernel = task.instantiate(default).kernel("cuda")
    assert launch_violation(kernel, TARGET.limits) is None


CPU_CASES = st.one_of(
    st.tuples(st.just("gemm_nn"), st.tuples(extent, extent, extent)),
    st.tuples(st.just("softmax"), st.tuples(extent, extent)),
    st.tuples(
        st.just("conv2d_nchw"),
        st.tuples(
            st.just(1), extent, extent, extent, extent, st.just(3), st.just(3), st.integers(1, 2),
            st.just(1),
        ),
    ),
    st.tuples(st.just("winograd_conv2d"), st.tuples(st.just(1), extent, extent, extent, extent)),
)  # fmt: skip


# Kernels are compiled for what this machine has, or for less.
WIDE = "llvm -mcpu=skylake-avx512" if vector_unit(Target("llvm")).floats >= 16 else "llvm"


@settings(max_examples=30, deadline=None)
@given(CPU_CASES, st.sampled_from(["llvm -mcpu=haswell", WIDE]))
@example(("gemm_nn", (7, 48, 16)), WIDE)
@example(("gemm_nn", (6, 40, 40)), "llvm -mcpu=haswell")
def test_every_shape_has_a_default_on_a_cpu_that_its_own_rules_allow(case, target):
    name, args = case
    task = create(f"{name}.cpu", args, target)
    assert len(task.config_space) >= 1
    assert task.default() is not None
