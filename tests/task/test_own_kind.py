"""A kind of knob that the library does not know: one class for its values, one that lists them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import autotune
from autotune.errors import SpaceError
from autotune.features import raw_feature_names, raw_features
from autotune.task import ConfigEntity, ConfigSpace, Entity, FallbackConfigEntity, TransformSpace
from autotune.task.kinds import SequenceEntity, entity_from_json
from autotune.task.membership import position

ADD = """
void own_kind(const float* a, float* b) {
#ifdef IVDEP
#pragma GCC ivdep
#endif
  for (int i = 0; i < N; ++i) b[i] = a[i] + SHIFT;
}
"""


@dataclass(frozen=True, repr=False, eq=False)
class Flags(SequenceEntity):
    """The switches that are on."""

    names: list[str]
    tag: ClassVar[str] = "test.flags"
    attribute: ClassVar[str] = "names"

    @classmethod
    def from_json(cls, value: object) -> Flags:
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise TypeError("expected a list of names")
        return cls(value)

    def features(self) -> list[object]:
        return [float(len(self.names))]


class FlagSpace(TransformSpace):
    """All subsets of some switches."""

    kind: ClassVar[type[Entity]] = Flags

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def __len__(self) -> int:
        return 2 ** len(self._names)

    def __getitem__(self, index: int) -> Flags:
        return Flags([name for bit, name in enumerate(self._names) if index >> bit & 1])

    def feature_names(self, name: str) -> list[str]:
        return [f"{name}.count"]


@autotune.template("tests/own_kind")
def own_kind(n: int) -> autotune.SourceKernel:
    cfg = autotune.get_config()
    cfg.define("flags", FlagSpace(["IVDEP", "WIDE"]))
    cfg.define_knob("shift", [1, 1.0])
    cfg.multi_filter(lambda c: c["flags"].names != ["WIDE"])
    cfg.add_flop(n)
    return autotune.SourceKernel(
        "own_kind",
        source=ADD,
        language="c",
        defines={"N": n, "SHIFT": cfg["shift"].val, **dict.fromkeys(cfg["flags"].names, 1)},
        args=[autotune.arg("a", (n,)), autotune.arg("b", (n,), role="out")],
        reference=lambda a: a + np.float32(1),
    )


def test_a_kind_of_ones_own_is_tuned_logged_and_replayed(tmp_path):
    log = str(tmp_path / "own.log")
    task = autotune.create("tests/own_kind", (64,), "llvm")
    result = autotune.tuner.GATuner(task, seed=0).tune(
        6,
        autotune.measure_option("local", autotune.LocalRunner(number=1, repeat=1)),
        callbacks=[autotune.callback.log_to_file(log)],
        finalists=0,
    )
    assert result.trials == len(task.config_space) == 6
    assert not result.failures
    recorded = [inp.config for inp, _ in autotune.record.load_from_file(log)]
    seen = {tuple(config["flags"].names) for config in recorded}
    assert seen == {(), ("IVDEP",), ("IVDEP", "WIDE")}
    assert all(type(config["flags"]) is Flags for config in recorded)
    with autotune.apply_history_best(log), autotune.Target("llvm"):
        kernel = autotune.build(own_kind(64))
    given, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernel(given, out)
    assert out.tolist() == (given + 1).tolist()


def space_of(names):
    space = ConfigSpace()
    space.define("flags", FlagSpace(names))
    return space


def test_points_go_through_json_and_are_found_again():
    space = space_of(["A", "B", "C"])
    for index in range(8):
        point = space.get(index)
        again = ConfigEntity.from_json_dict(point.to_json_dict())
        assert again == point
        assert again is not point
        assert space.own(again) == point
    assert raw_features(space, range(8))[:, 0].tolist() == [0, 1, 1, 2, 1, 2, 2, 3]
    assert raw_feature_names(space) == ["flags.count"]


def test_filters_see_the_values_whether_they_can_be_traced_or_not():
    for accepts in (lambda c: "A" in c["flags"].names, lambda c: str(c["flags"]).count("A") == 1):
        space = space_of(["A", "B", "C"])
        space.define_knob("x", [1, 2, 3])
        space.multi_filter(accepts)
        space.multi_filter(lambda c: len(c["flags"].names) >= c["x"].val)
        expected = [
            i + 8 * (x - 1)
            for x, i in itertools.product((1, 2, 3), range(8))
            if i & 1 and i.bit_count() >= x
        ]
        assert [i for i in range(space.range_length) if space.is_index_valid(i)] == expected


def test_a_fallback_takes_the_first_value_unless_a_fitting_one_was_set():
    config = FallbackConfigEntity()
    config["set"], config["other"] = Flags(["B"]), entity_from_json("other", "ot", 3)
    for name in ("set", "other", "free"):
        config.define(name, FlagSpace(["A", "B"]))
    assert [config[name].names for name in ("set", "other", "free")] == [["B"], [], []]
    with pytest.raises(SpaceError, match=r"for node: free.*has no tiles to choose"):
        config.fallback_split("free", [-1])


def test_a_fallback_imitates_what_the_kind_offers():
    def record(names):
        point = ConfigEntity(0, None, {"flags": Flags(names)})
        return autotune.MeasureInput("llvm", None, point), None

    config = FallbackConfigEntity()
    config.define("flags", FlagSpace(["A", "B"]))
    config.fallback_with_reference_log([record(["X"]), record(["B"])])
    assert config["flags"].names == ["B"]


def test_a_value_that_the_kind_does_not_offer_is_refused_in_words():
    offered = FlagSpace(["A", "B"])
    assert position(0, "flags", Flags(["B"]), offered) == 2
    assert [each in offered for each in (Flags(["A"]), Flags(["X"]), "A")] == [True, False, False]
    with pytest.raises(SpaceError, match=r"knob 'flags' = \['X'\] does not fit: the template"):
        position(0, "flags", Flags(["X"]), offered)
    with pytest.raises(SpaceError, match=r"knob 'f': 3 is no value of type 'test.flags'"):
        entity_from_json("f", "test.flags", 3)


def test_two_kinds_cannot_have_one_tag():
    with pytest.raises(SpaceError, match=r"tag must be one of its own, got 'sp', .*SplitEntity"):
        type("Thief", (SequenceEntity,), {"tag": "sp", "attribute": "x"})
    with pytest.raises(SpaceError, match="tag must be a text such as 'sp', got 7"):
        type("Number", (SequenceEntity,), {"tag": 7})


def test_what_is_no_kind_and_what_is_empty_is_refused_at_its_definition():
    with pytest.raises(SpaceError, match=r"'f' must be a kind of knob, such as .*, got \[1, 2\]"):
        ConfigSpace().define("f", [1, 2])
    empty = type("Empty", (FlagSpace,), {"__len__": lambda self: 0, "__repr__": lambda self: "E"})
    with pytest.raises(SpaceError, match="knob 'f': E has no values"):
        ConfigSpace().define("f", empty([]))
