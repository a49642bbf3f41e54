"""A space's size where it need not be exact: few calls of the filter, and close to the truth."""

import math

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest

from autotune.task import ConfigSpace, create
from autotune.task.constraints.constraint import TracedConstraint
from autotune.tuner import AutoTuner

LAYER = (1, 14, 14, 256, 256, 3, 3, 1, 1)
BY_FMA = (False, False, False, False, 1, 1, "none", False, False, True)
SHIPPED = [
    ("conv2d_nchw.cuda", (1, 7, 7, 512, 512, 3, 3, 1, 1, True, True)),
    ("conv2d_nchw.cuda", (1, 7, 7, 512, 512, 3, 3, 1, 1, *BY_FMA)),
    ("conv2d_nchw.cuda", (*LAYER, *BY_FMA)),
    ("conv2d_nchw.cuda", (1, 224, 224, 64, 3, 7, 7, 2, 3, *BY_FMA)),
    ("conv2d_nchw.cpu", LAYER),
    ("gemm_nn.cuda", (1024, 1024, 1024)),
    ("gemm_nn.cuda", (1024, 1024, 1024, "float32", True)),
    ("gemm_nn.cuda", (16, 4096, 4096)),
    ("gemm_nn.cuda", (1024, 1020, 1024, "float16")),
    ("gemm_nn.cuda", (1024, 1024, 1024, "float16")),
    ("gemm_nn.cpu", (512, 512, 512)),
    ("softmax.cuda", (4096, 4096)),
    ("softmax.cpu", (4096, 4096)),
]


class Counted:
    """A filter that counts its calls, of one that cannot be traced."""

    def __init__(self, predicate):
        self.predicate, self.calls = predicate, 0

    def __call__(self, c):
        self.calls += 1
        hash(c["a"].size[1])
        return self.predicate(c)


def splits(predicate, length=4096):
    space = ConfigSpace()
    for name in "abc":
        space.define_split(name, length, num_outputs=4)
    space.multi_filter(predicate)
    return space


def small_product(c):
    return math.prod(c[name].size[i] for name in "abc" for i in (1, 2)) <= 1 << 17


def target_of(name):
    return "cuda -arch=sm_90" if name.endswith("cuda") else "llvm"


@pytest.mark.many_cases
@pytest.mark.parametrize(("name", "args"), SHIPPED)
def test_filters_of_shipped_templates_are_called_a_few_hundred_times_at_most(
    name, args, monkeypatch
):
    calls = 0
    multi_filter = ConfigSpace.multi_filter

    def counting(space, predicate):
        def counted(entities):
            nonlocal calls
            calls += 1
            return predicate(entities)

        multi_filter(space, counted)

    monkeypatch.setattr(ConfigSpace, "multi_filter", counting)
    task = create(name, args, target_of(name))
    tuner = AutoTuner(task, seed=0)
    assert tuner.has_next()
    assert len(tuner.next_batch(34)) == 34
    assert tuner.reason
    assert len(task.config_space) > 40
    assert {type(c) for c in task.config_space._points.constraints} <= {TracedConstraint}
    assert calls < 300


def test_a_rough_count_is_within_a_tenth_of_the_exact_one():
    for name, args in (SHIPPED[0], SHIPPED[3], SHIPPED[5]):
        task = create(name, args, target_of(name))
        rough = task.config_space.rough_count
        assert rough == pytest.approx(len(task.config_space), rel=0.1)
        assert task.config_space.rough_count == len(task.config_space)  # once known, for good


def test_a_filter_that_cannot_be_traced_is_called_a_few_thousand_times_for_a_rough_count():
    counted = Counted(small_product)
    space = splits(counted)
    rough = space.rough_count
    assert 0 < counted.calls < 10_000
    sizes = [math.prod(space.space_map["a"][i].size[1:3]) for i in range(455)]
    values, times = np.unique(sizes, return_counts=True)
    products = values[:, None, None] * values[:, None] * values
    ways = times[:, None, None] * times[:, None] * times
    assert not space.count_is_known
    assert rough == pytest.approx(ways[products <= 1 << 17].sum(), rel=0.15)


def test_a_filter_that_cannot_be_traced_costs_a_first_proposal_few_calls():
    counted = Counted(small_product)
    space = splits(counted)
    assert len(space.sample(36, np.random.default_rng(0))) == 36
    assert counted.calls < 8_000


def test_small_spaces_are_counted_exactly_whatever_their_filters():
    space = ConfigSpace()
    space.define_knob("a", list(range(30)))
    space.define_knob("b", list(range(30)))
    space.multi_filter(lambda c: hash(c["a"].val * c["b"].val) % 3 == 1)
    exact = sum(a * b % 3 == 1 for a in range(30) for b in range(30))
    assert (space.rough_count, space.count_is_known) == (exact, True)
    assert space.has_at_most(exact)
    assert not space.has_at_most(exact - 1)


def test_whether_a_space_is_small_is_told_exactly():
    def space():
        return splits(lambda c: c["a"].size[1] * c["b"].size[1] * c["c"].size[1] == 4096)

    exact = len(space())
    assert space().has_at_most(exact)
    assert not space().has_at_most(exact - 1)
    assert space().has_at_most(2 * exact)
    assert not space().has_at_most(1)


def test_rare_points_of_filters_beyond_a_first_table_are_drawn_and_counted():
    space = ConfigSpace()
    for i in range(3):
        space.define_split(f"t{i}", 5040, num_outputs=3)
    space.multi_filter(lambda c: math.prod(e.size[1] for e in c.values()) == 5040**2)
    drawn = space.sample(40, np.random.default_rng(0))
    assert len(np.unique(drawn)) == 40
    assert space.is_valid(drawn).all()
    assert 0 < space.rough_count < space.range_length * 0.01


def test_counting_exactly_does_not_change_what_is_drawn_after_it():
    counted, fresh = splits(small_product, 512), splits(small_product, 512)
    assert len(counted)
    assert counted.subrange_length(0, 10**5) > 0
    rng = np.random.default_rng
    assert counted.sample(50, rng(3)).tolist() == fresh.sample(50, rng(3)).tolist()
