"""Variables of relay answer as TVM's do."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.tvm import relay


def test_a_variable_says_its_name_and_its_type_in_the_words_of_tvm():
    data = relay.var("data", shape=(2, 3), dtype="float16")
    same = relay.Var("data", relay.TensorType((2, 3), "float16"))
    for each in (data, same):
        assert isinstance(each, relay.Var)
        assert each.name_hint == "data"
        assert [int(extent) for extent in each.type_annotation.shape] == [2, 3]
        assert each.type_annotation.dtype == each.checked_type.dtype == "float16"
    function = relay.Function([same], relay.nn.relu(same))
    assert [each.name_hint for each in function.params] == ["data"]
    assert relay.analysis.free_vars(relay.nn.relu(data)) == [data]


@pytest.mark.parametrize("given", [(relay.TensorType((2,)), "data"), ("data", (2, 3))])
def test_what_makes_no_variable_is_refused(given):
    with pytest.raises(GraphError, match=r"Var: (name_hint|type_annotation) must be"):
        relay.Var(*given)


def test_pythons_operators_apply_those_of_relay():
    x, array = relay.var("x", shape=(2, 3)), np.float32([1, 2, 4])
    numbers = np.float32([[1, -2, 3], [0.5, 5, -6]])
    for made, want in (
        ((x + 1) * 2 - x / 4, (numbers + 1) * 2 - numbers / 4),
        (3 - x, 3 - numbers),
        (1 / (-x), 1 / -numbers),
        (array * x + array, array * numbers + array),
        (x**2, numbers**2),
        ((x < 1).astype("int32"), numbers < 1),
        ((x >= 1).astype("int32"), numbers >= 1),
    ):
        (got,) = relay.Function([x], made).graph.run(numbers)
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_what_is_no_number_of_a_tensors_type_is_not_made_one():
    whole = relay.var("i", shape=(2,), dtype="int32")
    with pytest.raises(GraphError, match=r"add: 1.5 is no int32; cast the tensor first"):
        whole + 1.5
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for -: 'Var' and 'str'"):
        whole - "2"
