"""Variables of relay answer as TVM's do."""

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
