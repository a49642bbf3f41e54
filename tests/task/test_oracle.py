"""Spaces executed by TVM v0.12.0 (`space.py`): lengths, order, text, features, errors."""

import json
from pathlib import Path

import numpy as np
import pytest

from autotune.errors import AutotuneError
from autotune.task import ConfigSpace, FallbackConfigEntity, VirtualAxis

ORACLE = json.loads((Path(__file__).parent.parent / "data" / "space_oracle.json").read_text())
SPACES = ORACLE["spaces"]


def build(definition):
    space, outputs = ConfigSpace(), {}
    for call in definition:
        op = call["op"]
        rest = {
            k: v for k, v in call.items() if k not in ("op", "name", "length", "axes", "policy")
        }
        if "filter" in rest:
            rest["filter"] = eval(rest["filter"])
        if op == "define_split":
            made = space.define_split(call["name"], call["length"], call["policy"], **rest)
            outputs[call["name"]] = made
        elif op == "multi_filter":
            space.multi_filter(rest["filter"])
        elif op == "define_knob":
            space.define_knob(call["name"], rest["candidate"])
        else:
            define(space, op, call, rest, outputs)
    return space


def define(space, op, call, rest, outputs):
    if op == "define_reorder_outputs":
        axes = outputs[call.get("split") or rest.pop("of")]
        space.define_reorder(call["name"], axes, call["policy"])
        return
    axes = {name: VirtualAxis(2 + i, name) for i, name in enumerate(call["axes"])}
    for chains in ("candidate", "spatial", "reduce"):
        if chains in rest:
            rest[chains] = [[axes[name] for name in chain] for chain in rest[chains]]
    getattr(space, op)(call["name"], list(axes.values()), call["policy"], **rest)


BUILT = {name: build(space["definition"]) for name, space in SPACES.items()}


@pytest.mark.parametrize("name", SPACES)
def test_a_space_has_the_shape_and_text_of_the_original(name):
    space, expected = BUILT[name], SPACES[name]
    assert len(space) == expected["len"]
    assert space.len_is_exact
    assert space.range_length == expected["range_length"]
    assert space.dims == expected["dims"]
    assert list(space.space_map) == expected["knob_names"]
    assert repr(space) == expected["repr"]


@pytest.mark.parametrize("name", SPACES)
def test_entities_come_in_the_original_order(name):
    for knob, expected in SPACES[name]["all_entities"].items():
        entities = [entity.to_json() for entity in BUILT[name].space_map[knob]]
        assert entities[: len(expected)] == expected


@pytest.mark.parametrize("name", [n for n in SPACES if "valid_indices" in SPACES[n]])
def test_filters_leave_the_original_indices(name):
    space, expected = BUILT[name], SPACES[name]
    every = np.arange(space.range_length)
    assert np.flatnonzero(space.is_valid(every)).tolist() == expected["valid_indices"]
    for index, n, answer in expected["get_next_index"]:
        assert space.get_next_index(index, n) == answer
    for start, end, count in expected["subrange_length"]:
        assert space.subrange_length(start, end) == count


@pytest.mark.parametrize("case", ORACLE["cases"], ids=lambda c: f"{c['space']}-{c['index']}")
def test_an_index_decodes_as_in_the_original(case):
    space, index = BUILT[case["space"]], case["index"]
    assert space.is_index_valid(index) == case["valid"]
    if not case["valid"]:
        with pytest.raises(IndexError):
            space.get(index)
        return
    config = space.get(index)
    assert space.point2knob(index) == case["knob"]
    assert space.knob2point(case["knob"]) == index
    assert config.to_json_dict()["entity"] == case["entity"]
    assert str(config) == case["str"]
    if "flatten_feature" in case:
        np.testing.assert_array_equal(config.get_flatten_feature(), case["flatten_feature"])
    else:
        with pytest.raises(ValueError, match="not a number"):
            config.get_flatten_feature()


@pytest.mark.parametrize("case", ORACLE["fallback_split"], ids=str)
def test_a_fallback_chooses_the_original_tiles(case):
    config = FallbackConfigEntity()
    config.define_split("tile", case["length"], num_outputs=case["num_outputs"])
    config.fallback_split("tile", case["constraints"])
    assert config["tile"].size == case["size"]


ERRORS = {
    "define_split policy='all'": lambda s: s.define_split("t", 8, "all", num_outputs=2),
    "define_annotate vec on 2 axes": lambda s: s.define_annotate("a", [2, 3], "vec"),
    "define_annotate bind_gpu 1 axis": lambda s: s.define_annotate("a", [2], "bind_gpu"),
    "define_split on str axis": lambda s: s.define_split("t", "x", num_outputs=2),
    "define_knob []": lambda s: s.define_knob("k", []),
    "get(len)": lambda s: (s.define_split("t", 8, num_outputs=2), s.get(4)),
}
# Where the original stumbled into a built-in error, ours says what is wrong.
BETTER = {
    "define_annotate vec on 2 axes": "at most one axis can be vectorised",
    "define_knob []": "knob 'k': the list of candidates is empty",
}


@pytest.mark.parametrize("case", [e for e in ORACLE["errors"] if e["call"] in ERRORS], ids=str)
def test_mistakes_raise_a_clear_error(case):
    with pytest.raises(AutotuneError) as caught:
        ERRORS[case["call"]](ConfigSpace())
    assert BETTER.get(case["call"], case["msg"]) in str(caught.value)


def test_one_output_is_a_split_too():
    space = ConfigSpace()
    space.define_split("tile", 8, num_outputs=1)
    assert [entity.size for entity in space.space_map["tile"]] == [[-1]]


def test_every_error_of_the_original_is_covered():
    assert {e["call"] for e in ORACLE["errors"]} == {*ERRORS, "define_split num_outputs=1"}
