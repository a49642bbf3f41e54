"""Each kind of knob by itself, beyond what the oracle holds."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from autotune.errors import SpaceError
from autotune.features import raw_features
from autotune.task import (
    ConfigEntity,
    ConfigSpace,
    FallbackConfigEntity,
    OtherOptionEntity,
    SplitEntity,
    VirtualAxis,
)
from autotune.task.kinds import option
from autotune.task.kinds import split as split_kind


def sizes(space, name="t"):
    return [entity.size for entity in space.space_map[name]]


def split(length, policy="factors", **kw):
    space = ConfigSpace()
    space.define_split("t", length, policy, **kw)
    return sizes(space)


def naive_split(n, outputs, factors, tails):
    found = []
    for stack in itertools.product(factors, repeat=outputs - 1):
        p = int(np.prod(stack)) if stack else 1
        if p <= n and (n % p == 0 or (tails and p < n)):
            found.append([-1, *reversed(stack)])
    return found


@pytest.mark.parametrize("n", [1, 2, 7, 12, 97, 224])
@pytest.mark.parametrize("outputs", [1, 2, 3, 4])
@pytest.mark.parametrize("policy", ["factors", "power2", "verbose"])
@pytest.mark.parametrize("no_tail", [None, True, False])
def test_splits_come_in_the_order_of_a_depth_first_search(n, outputs, policy, no_tail):
    divisors = [d for d in range(1, n + 1) if n % d == 0]
    powers = [2**i for i in range(n.bit_length())]
    factors = {"factors": divisors, "power2": powers}.get(policy)
    factors = factors or list(set(divisors) | set(powers))
    tails = policy != "factors" if no_tail is None else not no_tail
    expected = naive_split(n, outputs, factors, tails)
    assert split(n, policy, num_outputs=outputs, no_tail=no_tail) == expected


def test_the_largest_factor_bounds_every_inner_size():
    assert split(64, num_outputs=2, max_factor=5) == [[-1, 1], [-1, 2], [-1, 4]]


def test_candidates_are_taken_as_they_are_and_filtered():
    given = [[4, 3], [-1, 5], [1, 64]]
    assert split(64, "candidate", num_outputs=2, candidate=given) == given
    kept = split(64, "candidate", num_outputs=2, candidate=given, filter=lambda e: e.size[1] > 3)
    assert kept == given[1:]


@pytest.mark.parametrize(
    ("length", "kw", "text"),
    [
        (
            8,
            {"num_outputs": 0},
            "knob 't': num_outputs must be a whole number of at least 1, got 0",
        ),
        (8, {"num_outputs": 2, "filter": lambda e: False}, "knob 't': no split of 8 into 2"),
        (0, {"num_outputs": 2}, "length of the axis must be a whole number of at least 1, got 0"),
        (
            8,
            {"num_outputs": 2, "policy": "candidate"},
            "candidate must be a list of sizes such as [[1, 1]]",
        ),
        (
            8,
            {"num_outputs": 2, "policy": "candidate", "candidate": [[1, 2, 4]]},
            "candidate must be lists of 2 sizes, got [1, 2, 4]",
        ),
    ],
)
def test_a_split_that_cannot_be_names_the_knob_and_the_reason(length, kw, text):
    with pytest.raises(SpaceError, match="knob 't'") as caught:
        ConfigSpace().define_split("t", length, **kw)
    assert text in str(caught.value)


def test_a_split_with_too_many_entities_says_what_to_do(monkeypatch):
    monkeypatch.setattr(split_kind, "MAX_ENTITIES", 1000)
    with pytest.raises(SpaceError, match=r"more than 1000 entities for one knob; use max_factor"):
        ConfigSpace().define_split("t", 2**20 * 3**6, num_outputs=5)


def test_an_axis_may_be_a_length_a_virtual_axis_or_an_iteration_variable():
    constant = SimpleNamespace(value=12)
    variable = SimpleNamespace(dom=SimpleNamespace(extent=constant), var="i")
    for axis in (12, np.int64(12), VirtualAxis(12), variable, ConfigSpace.axis(variable)):
        assert split(axis, num_outputs=2) == split(12, num_outputs=2)
    assert ConfigSpace.axis(SimpleNamespace(dom=None)).length == -1
    with pytest.raises(SpaceError, match="is not constant"):
        ConfigSpace.axis(SimpleNamespace(dom=SimpleNamespace(extent="n")))


@pytest.mark.parametrize(
    ("axes", "policy", "kw", "text"),
    [
        (3, "sideways", {}, "Invalid policy: sideways"),
        (3, "candidate", {}, "candidate must be lists of the axes"),
        (
            3,
            "candidate",
            {"candidate": [[VirtualAxis(2, "other")]]},
            "candidate must be made of the axes",
        ),
        (3, "interleave", {"spatial": []}, "reduce must be lists of the axes"),
        (3, "candidate", {"candidate": []}, "gives no order of 3 axes"),
    ],
)
def test_a_reorder_that_cannot_be_says_why(axes, policy, kw, text):
    loops = [VirtualAxis(4) for _ in range(axes)]
    with pytest.raises(SpaceError) as caught:
        ConfigSpace().define_reorder("r", loops, policy, **kw)
    assert "knob 'r'" in str(caught.value)
    assert text in str(caught.value)


def test_orders_over_split_outputs_and_over_plain_positions():
    space = ConfigSpace()
    outer, inner = space.define_split("t", 8, num_outputs=2)
    space.define_reorder("r", [outer, inner], "candidate", candidate=[[inner, outer], [outer]])
    assert [e.to_json() for e in space.space_map["r"]] == [[1, 0], [0]]
    space.define_reorder("p", [5, 6, 7], "candidate", candidate=[[7, 5, 6]])
    assert space["p"].perm == [2, 0, 1]


def test_an_identity_order_has_a_json_form():
    space = ConfigSpace()
    space.define_reorder("r", [0, 1, 2], "identity")
    config = space.get(0)
    assert config.to_json_dict()["entity"] == [["r", "re", [0, 1, 2]]]
    assert ConfigEntity.from_json_dict(config.to_json_dict()) == config


@pytest.mark.parametrize(
    ("policy", "n", "expected"),
    [
        ("bind_gpu", 2, ["blockIdx.x", "threadIdx.x"]),
        ("bind_gpu", 3, ["fuse", "blockIdx.x", "threadIdx.x"]),
        ("bind_gpu", 4, ["blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"]),
        (
            "bind_gpu",
            7,
            ["fuse", *(f"{k}Idx.{d}" for k in ("block", "thread") for d in "zyx")],
        ),
        ("bind_gpu_virtual", 3, ["blockIdx.x", "vthread", "threadIdx.x"]),
        (
            "bind_gpu_virtual",
            6,
            ["blockIdx.y", "blockIdx.x", "vthread", "vthread", "threadIdx.y", "threadIdx.x"],
        ),
        (
            "bind_gpu_virtual",
            10,
            [
                "fuse", "blockIdx.z", "blockIdx.y", "blockIdx.x", "vthread", "vthread", "vthread",
                "threadIdx.z", "threadIdx.y", "threadIdx.x",
            ],
        ),
    ],
)  # fmt: skip
def test_a_gpu_binding_uses_as_many_dimensions_as_there_are_loops(policy, n, expected):
    space = ConfigSpace()
    space.define_annotate("a", list(range(n)), policy)
    assert [e.anns for e in space.space_map["a"]] == [expected]


def test_anchors_are_all_combinations_of_positions():
    space = ConfigSpace()
    space.define_annotate("a", [1, 2, 3], "locate_cache", num_anchor=2)
    assert [list(e.anns) for e in space.space_map["a"]] == [[0, 1], [0, 2], [1, 2]]
    assert raw_features(space, [1]).tolist() == [[0, 2]]
    assert space.get(1).get_flatten_feature().tolist() == [0, 2]


@pytest.mark.parametrize(
    ("n", "policy", "text"),
    [
        (2, "parallel", "Invalid policy: parallel"),
        (2, "bind_gpu_virtual", "needs at least 3 axes, got 2"),
        (3, "locate_cache", "num_anchor must be a whole number"),
    ],
)
def test_an_annotation_that_cannot_be_says_why(n, policy, text):
    with pytest.raises(SpaceError) as caught:
        ConfigSpace().define_annotate("a", list(range(n)), policy)
    assert "knob 'a'" in str(caught.value)
    assert text in str(caught.value)


def test_a_missing_knob_is_named_with_those_there_are():
    space = ConfigSpace()
    space.define_knob("vec", [1])
    with pytest.raises(KeyError, match="no knob 'tile'; defined so far: vec"):
        space["tile"]


def test_operations_and_bytes_add_up():
    space = ConfigSpace()
    space.add_flop(10)
    space.add_flop(np.int64(5))
    space.add_bytes(SimpleNamespace(value=7))
    assert (space.flop, space.bytes) == (15, 7)
    with pytest.raises(SpaceError, match="add_flop: flop must be a number"):
        space.add_flop("many")


def test_a_fallback_keeps_what_was_set_before_the_definition():
    config = FallbackConfigEntity()
    config["vec"] = OtherOptionEntity(8)
    config.define_knob("vec", [1, 2])
    config.define_knob("unroll", [0, 16])
    assert (config["vec"].val, config["unroll"].val) == (8, 0)
    assert str(config) == "[('vec', 8), ('unroll', 0)],None"


def test_choosing_fallback_tiles_leaves_the_space_alone():
    config = FallbackConfigEntity()
    config.define_split("t", 64, num_outputs=2)
    config.fallback_split("t", [-1, 16])
    assert config["t"].size == [4, 16]
    assert config.space_map["t"][0].size == [-1, 1]
    with pytest.raises(SpaceError, match="Cannot find feasible fallback split entity for node: t"):
        config.fallback_split("t", [-1, 0])
    with pytest.raises(SpaceError, match="expected 2 constraints"):
        config.fallback_split("t", [-1])


def test_a_fallback_imitates_the_most_alike_record():
    def record(size, vec):
        config = ConfigEntity(0, None, {"t": SplitEntity(size), "v": OtherOptionEntity(vec)})
        return SimpleNamespace(config=config), None

    config = FallbackConfigEntity()
    config.define_split("t", 64, num_outputs=2)
    config.define_knob("v", [1, 2, 4])
    config.fallback_with_reference_log([record([-1, 7], 1), record([-1, 16], 4)])
    assert config["t"].size == [4, 16]
    assert config["v"].val == 4


def test_a_fallback_prefers_the_record_that_shares_most_of_its_factors():
    def record(size):
        return SimpleNamespace(config=ConfigEntity(0, None, {"t": SplitEntity(size)})), None

    config = FallbackConfigEntity()
    config.define_split("t", 64, num_outputs=2)
    config.fallback_with_reference_log([record([-1, 1]), record([2, 32]), record([-1, 2])])
    assert config["t"].size == [2, 32]


@pytest.mark.parametrize("no_tail", [True, False])
@pytest.mark.parametrize(
    ("size", "said"),
    [
        ([-1, 4], ""),
        ([2, 4], ""),
        ([-2, 4], "sizes are positive, and only the first may be -1"),
        ([-2, -4], "sizes are positive, and only the first may be -1"),
        ([0, 4], "sizes are positive, and only the first may be -1"),
        ([2, 0], "sizes are positive, and only the first may be -1"),
        ([8, -1], "sizes are positive, and only the first may be -1"),
        ([-1, -1], "sizes are positive, and only the first may be -1"),
        ([8], "it has 1 sizes, the template splits into 2"),
    ],
)
def test_sizes_of_a_split_are_positive_but_for_the_first(size, said, no_tail):
    assert split_kind.violation(size, 8, 2, no_tail) == said


@pytest.mark.parametrize("size", [[-1, 3], [4, 4]])
def test_only_exact_splits_have_factors_of_the_axis(size):
    said = split_kind.violation(size, 8, 2, True)
    assert said == "the factors do not divide the axis of length 8"
    assert split_kind.violation(size, 8, 2, False) == ""


@pytest.mark.parametrize("values", [range(300_000), list(map(str, range(300_000)))])
def test_a_knob_of_very_many_values_makes_no_entity_for_each(monkeypatch, values):
    made = []
    kind = option.OtherOptionEntity
    monkeypatch.setattr(option, "OtherOptionEntity", lambda val: made.append(val) or kind(val))
    space = ConfigSpace()
    for _ in range(2):
        space.define_knob("k", values)
    knob = space.space_map["k"]
    assert knob.find(kind(values[-1])) == len(space) - 1 == 299_999
    assert space.get(7)["k"].val == values[7]
    assert knob.feature_table.shape == (300_000, 1)
    assert len(made) < 100


def test_a_value_among_very_many_that_no_log_can_hold_is_named():
    with pytest.raises(SpaceError, match="values that a log can hold, got <object"):
        ConfigSpace().define_knob("k", [*range(1000), object()])
