"""What entities do to a schedule, and spaces of several knobs."""

import numpy as np
import pytest

from autotune.errors import SpaceError, TargetError
from autotune.features import raw_feature_names, raw_features
from autotune.task import (
    AnnotateEntity,
    ConfigEntity,
    ConfigSpace,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
)
from autotune.task.point_run import PointRun


class Stage:
    """Records what an entity does to it."""

    def __init__(self):
        self.done = []

    def __getitem__(self, _):
        return self

    def multi_split(self, axis, factors):
        self.done.append(("multi_split", axis, *factors))
        return tuple(f"{axis}.{i}" for i in range(len(factors) + 1))

    def reorder(self, *axes):
        self.done.append(("reorder", *axes))

    def unroll(self, axis):
        self.done.append(("unroll", axis))

    def vectorize(self, axis):
        self.done.append(("vectorize", axis))

    def fuse(self, outer, inner):
        self.done.append(("fuse", outer, inner))
        return f"{outer}&{inner}"

    def bind(self, axis, thread):
        self.done.append(("bind", axis, thread.thread_tag))

    def compute_at(self, stage, axis):
        self.done.append(("compute_at", axis))


def test_a_split_entity_is_one_split_whose_first_size_follows():
    stage = Stage()
    assert SplitEntity([-1, 4, 2]).apply(stage, "C", "i") == ["i.0", "i.1", "i.2"]
    assert stage.done == [("multi_split", "i", 4, 2)]
    assert SplitEntity([-1]).apply(stage, "C", "j") == ["j"]


def test_a_reorder_entity_orders_the_loops_it_names():
    stage = Stage()
    assert ReorderEntity([2, 0]).apply(stage, "C", ["a", "b", "c"]) == ["c", "a"]
    assert stage.done == [("reorder", "c", "a")]


def test_an_annotate_entity_fuses_binds_unrolls_and_vectorises():
    stage, loops = Stage(), ["a", "b", "c", "d"]
    anns = AnnotateEntity(["fuse", "threadIdx.x", "unroll", "vec"])
    assert anns.apply(stage, "C", loops) == ["a", "a&b", "c", "d"]
    assert loops == ["a", "b", "c", "d"]
    assert stage.done == [
        ("fuse", "a", "b"),
        ("bind", "a&b", "threadIdx.x"),
        ("unroll", "c"),
        ("vectorize", "d"),
    ]


def test_annotations_that_do_not_suit_the_lengths_mark_the_configuration():
    config = PointRun(ConfigEntity(0, None, {}))
    entity = AnnotateEntity(["unroll", "vec"])
    entity.apply(Stage(), "C", ["a", "b"], [64, 3], max_unroll=32, vec_size=[4], cfg=config)
    assert config.errors == [
        "Too large factor for unrolling",
        "Wrong size of lanes in vectorization",
    ]
    assert not config.valid()


def test_anchors_place_caches():
    stage = Stage()
    AnnotateEntity([1, 0]).apply(stage, "C", ["a", "b"], source=[["s"], ["t"]])
    assert stage.done == [("compute_at", "b"), ("compute_at", "a")]


def test_parts_of_a_template_may_share_a_knob_of_the_same_values():
    space = ConfigSpace()
    space.define_knob("unroll", [0, 1])
    space.define_knob("b", [1, 2, 3])
    space.define_knob("unroll", (0, 1))
    assert (len(space), space.names, space.dims) == (6, ["unroll", "b"], [2, 3])
    for other in ([1, 0], [False, True], [0, 1, 2]):
        with pytest.raises(SpaceError, match="defined already"):
            space.define_knob("unroll", other)
    space.define_split("tile", 8, num_outputs=2)
    with pytest.raises(SpaceError, match="defined already"):
        space.define_split("tile", 8, num_outputs=2)


def test_a_knob_defined_twice_is_refused_and_one_more_forgets_what_was_counted():
    space = ConfigSpace()
    space.define_knob("a", [1, 2])
    space.define_knob("b", [1, 2, 3])
    assert len(space) == 6
    with pytest.raises(SpaceError, match="knob 'a': name must be one of its own, got one that"):
        space.define_knob("a", [5, 6, 7, 8])
    assert (len(space), space.names, space.dims) == (6, ["a", "b"], [2, 3])
    space.define_knob("c", [1, 2])
    assert len(space) == 12


def test_entities_of_equal_content_are_equal_whatever_list_holds_them():
    assert ReorderEntity((0, 1)) == ReorderEntity([0, 1]) == ReorderEntity(range(2))
    assert AnnotateEntity(("none",)) == AnnotateEntity(["none"])
    assert len({SplitEntity([1, 2]), SplitEntity([1, 2]), OtherOptionEntity([1])}) == 2


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda knob: knob == 1, r"a knob is compared with 1; compare its value: cfg\[name\].val"),
        (lambda knob: knob == "on", "a knob is compared with 'on'"),
        (lambda knob: not knob, r"asked whether it is true; ask for its value: cfg\[name\].val"),
        (lambda knob: 64 // knob, r"a knob is used as a number; use its value: cfg\[name\].val"),
        (lambda knob: knob < 4, "a knob is used as a number"),
        (lambda knob: range(knob), "a knob is used as a number"),
    ],
)
def test_a_knob_that_is_used_instead_of_its_value_is_refused(use, message):
    space = ConfigSpace()
    space.define_knob("a", [1, 2])
    with pytest.raises(SpaceError, match=message):
        use(space["a"])
    space.multi_filter(lambda c: use(c["a"]))
    with pytest.raises(SpaceError, match=rf"the filter at .* failed: .*{message}"):
        len(space)


@pytest.mark.parametrize("reads", [lambda c: c["a"].val, lambda c: str(c["a"])])
def test_what_is_wrong_with_a_target_is_no_fault_of_the_filter(reads):
    def asks(c):
        reads(c)
        raise TargetError("target 'x': no such CPU")

    space = ConfigSpace()
    space.define_knob("a", [1, 2])
    space.multi_filter(asks)
    with pytest.raises(TargetError, match=r"^target 'x': no such CPU$"):
        len(space)


def test_a_split_is_not_true_or_false():
    with pytest.raises(SpaceError, match=r"ask for its value: cfg\[name\].size"):
        bool(SplitEntity([1, 2]))


def test_features_are_numbers_or_one_column_a_value():
    space = ConfigSpace()
    space.define_split("t", 4, num_outputs=2)
    space.define_knob("n", [0, 16])
    space.define_knob("s", ["a", "b"])
    assert raw_feature_names(space) == ["t[0]", "t[1]", "n", "s=a", "s=b"]
    index = space.indices([[2, 1, 0]])[0]
    assert raw_features(space, [index]).tolist() == [[-1, 4, 16, 1, 0]]


def test_neighbours_differ_in_one_knob_and_are_valid():
    space = ConfigSpace()
    space.define_knob("a", [0, 1, 2])
    space.define_knob("b", [0, 1])
    space.multi_filter(lambda c: c["a"].val + c["b"].val != 3)
    here = space.indices([[1, 1]])[0]
    near = {tuple(digits) for digits in space.knobs(space.neighbours(here)).tolist()}
    assert near == {(0, 1), (1, 0)}


def test_indices_outside_the_space_are_not_valid():
    space = ConfigSpace()
    space.define_knob("a", [0, 1, 2])
    assert space.is_valid([-1, 0, 2, 3, 10**12]).tolist() == [False, True, True, False, False]
    with pytest.raises(IndexError, match="Index out of range: size 3, got index 3"):
        space.get(3)


def test_a_walk_on_a_space_of_one_point_ends():
    space = ConfigSpace()
    space.define_knob("only", [1])
    assert space.random_walk(0) == 0
    assert space.sample_ints(1).tolist() == [0]
    with pytest.raises(SpaceError, match="asked for m=2 distinct configurations, the space has 1"):
        space.sample_ints(2)


def test_a_space_without_knobs_has_one_point():
    space = ConfigSpace()
    assert (len(space), space.range_length, space.dims) == (1, 1, [])
    assert space.sample(5, np.random.default_rng(0)).tolist() == [0]
    assert space.get(0).to_json_dict() == {"index": 0, "code_hash": None, "entity": []}


@pytest.mark.parametrize(
    ("entity", "asked", "advice"),
    [
        (SplitEntity([-1, 4]), "val", "size"),
        (OtherOptionEntity(4), "size", "val"),
        (ReorderEntity([1, 0]), "val", "perm"),
        (AnnotateEntity(["unroll"]), "val", "anns"),
    ],
    ids=["split", "option", "reorder", "annotation"],
)
def test_asking_a_knob_for_the_value_of_another_kind_names_its_own(entity, asked, advice):
    with pytest.raises(AttributeError, match=rf"{asked!r}; .* is cfg\[name\]\.{advice}$"):
        getattr(entity, asked)
    assert not hasattr(entity, asked)
