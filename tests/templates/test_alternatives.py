"""One space of families with different knobs: its points, the untuned one, and old records."""

import pytest
from autotune.templates.alternatives import KNOB, Alternatives, Near
from autotune.templates.convolutions import conv2d_bf16x3, conv2d_cuda
from autotune.templates.convolutions.conv2d_shape import Conv2d
from autotune.templates.products import gemm_half, gemm_mma, gemm_padded, gemm_small_k
from autotune.templates.products.gemm_shape import Gemm
from autotune.templates.source import tunable

from autotune.target import Target
from autotune.task import ConfigEntity, OtherOptionEntity, create, template
from autotune.tuner.models.candidates import untuned

HOPPER = Target("cuda -arch=sm_90")
SHAPE = Gemm(5502, 629, 33, "float16")
COPIED = gemm_padded.Padded(gemm_half)
BOTH = Alternatives((COPIED, gemm_small_k), 0)
SHORT = {"threads": 128, "cols": 2, "tile_m": 32}


def _task():
    return create("gemm.cuda", (SHAPE.m, SHAPE.n, SHAPE.k, SHAPE.dtype), HOPPER)


def _entries(task, choice):
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    return [one.entry for one in task.instantiate(ConfigEntity(0, "", entities)).calls]


def _space_of(family):
    """Return the space that a family has alone."""

    @template(f"alternatives.{BOTH.families.index(family)}")
    def alone():
        return tunable(family, SHAPE, "cuda")

    return create(alone, (), HOPPER).config_space


def _first(shape):
    return {name: values[0] for name, values in BOTH.candidates(shape).items()}


def test_a_space_has_each_kernel_of_each_family_once():
    space = _task().config_space
    alone = [_space_of(family) for family in BOTH.families]
    assert len(space.space_map) == 1 + sum(len(each.space_map) for each in alone)
    assert space.valid_count == sum(each.valid_count for each in alone)


@pytest.mark.parametrize("untuned", [0, 1])
def test_the_untuned_choice_is_that_of_the_family_that_is_said_to_be_faster(untuned):
    both = Alternatives(BOTH.families, untuned)
    choice = both.default_choice(SHAPE, HOPPER)
    own = both.families[untuned].default_choice(SHAPE, HOPPER)
    assert choice == {**_first(SHAPE), KNOB: untuned, **own}
    assert both.violation(SHAPE, choice, HOPPER) is None


def test_knobs_of_the_family_that_is_not_selected_keep_their_first_value():
    short = {**_first(SHAPE), KNOB: 1, **SHORT}
    assert BOTH.violation(SHAPE, short, HOPPER) is None
    stages = BOTH.candidates(SHAPE)["stages"][1]
    assert BOTH.violation(SHAPE, short | {"stages": stages}, HOPPER) == "stages of another family"
    copied = BOTH.default_choice(SHAPE, HOPPER)
    assert BOTH.violation(SHAPE, copied | {"cols": 2}, HOPPER) == "cols of another family"


def test_what_a_family_refuses_its_alternatives_refuse():
    long = Gemm(5502, 629, 95, "float16")
    choice = {**_first(long), KNOB: 1, **SHORT, "cols": 4}
    assert BOTH.violation(long, choice, HOPPER) == "too many registers"


def test_records_of_a_family_that_had_a_space_of_its_own_are_replayed():
    task = _task()
    assert _entries(task, SHORT) == ["gemm_small_k"]
    assert _entries(task, COPIED.default_choice(SHAPE, HOPPER)) == ["pad", "gemm_tma"]
    by_mma = gemm_padded.Padded(gemm_mma).default_choice(SHAPE, HOPPER)
    assert _entries(task, by_mma) == ["pad", "gemm_mma"]  # from before there was wgmma


def test_points_of_both_families_are_in_the_space_of_a_task():
    task = _task()
    space = task.config_space
    short = {**_first(SHAPE), KNOB: 1, **SHORT}
    for choice, entries in (
        (short, ["gemm_small_k"]),
        (BOTH.default_choice(SHAPE, HOPPER), ["pad", "gemm_tma"]),
    ):
        place = [space.space_map[name].find(OtherOptionEntity(v)) for name, v in choice.items()]
        point = space.get(space.knob2point(place))
        assert [one.entry for one in task.instantiate(point).calls] == entries


# Layers of float32 NCHW, and the families that a space of them has.
FLOATS = {
    "short sums": ((8, 56, 56, 64, 16, 1, 1), {0, 1, 2, 4}),
    "few channels": ((8, 112, 112, 32, 3, 3, 3, 2, 1), {0, 1, 2, 4}),
    "many channels": ((1, 7, 7, 512, 512, 3, 3, 1, 1), {0, 2}),
    "a product": ((8, 28, 28, 512, 128, 1, 1), {0, 1, 2, 3}),
}


@pytest.mark.parametrize("name", FLOATS)
def test_a_space_of_float32_layers_has_all_families_that_may_be_fastest(name):
    args, numbers = FLOATS[name]
    task = create("conv2d_nchw.cuda", args, HOPPER)
    starts = [task.default(), *task.suggested()]
    assert {start[KNOB].val for start in starts} == numbers
    assert len({task.instantiate(start).name for start in starts}) == len(numbers)
    assert task.config_space.len_is_exact


@pytest.mark.parametrize(
    "args", [(1, 46, 49, 215, 5, 5, 5, 1, 2), (1, 12, 15, 48, 200, 3, 1, 1, (1, 0))]
)
def test_of_estimates_that_hardly_differ_tensor_cores_are_taken(args):
    task = create("conv2d_nchw.cuda", args, HOPPER)
    assert task.instantiate(task.default()).calls[0].entry == "conv2d_bf16x3"


def test_neighbours_of_the_untuned_choice_are_those_of_its_values():
    shape = Conv2d(8, 56, 56, 64, 16, 1, 1, (1, 1), (0, 0), False, False)
    options = conv2d_cuda.candidates(shape)
    near = Near(conv2d_cuda, 1, ("taps",), HOPPER)
    untuned = near.default_choice(shape, HOPPER)
    for knob, values in near.candidates(shape).items():
        at = options[knob].index(untuned[knob])
        reach = 0 if knob == "taps" else 1
        assert values == options[knob][max(0, at - reach) : at + reach + 1]


def test_searches_start_from_what_a_template_suggests():
    task = create("conv2d_nchw.cuda", FLOATS["short sums"][0], HOPPER)
    starts = untuned(task)
    assert starts[0] == task.default().index
    assert starts[1:] == [each.index for each in task.suggested()]


def test_a_record_from_before_is_a_point_of_a_space_of_several_families():
    task = create("conv2d_nchw.cuda", FLOATS["many channels"][0], HOPPER)
    untuned_point = task.default()
    names = conv2d_bf16x3.candidates(Conv2d(1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1), False, False))
    before = ConfigEntity(0, None, {name: untuned_point[name] for name in names})
    assert task.own(before).index == untuned_point.index


class Counted:
    """A family that counts how often its values are asked for."""

    calls = 0
    violation = staticmethod(gemm_small_k.violation)

    def candidates(self, shape):
        self.calls += 1
        return gemm_small_k.candidates(shape)


def test_the_values_of_a_shape_are_listed_once_however_many_points_are_checked():
    family = Counted()
    both = Alternatives((COPIED, family), 1)
    choices = [dict(_first(SHAPE), **{KNOB: number}) for number in (0, 1, 0, 1)]
    for choice in choices:
        both.violation(SHAPE, choice, HOPPER)
    assert family.calls == 1
