"""What networks of one model have in common."""

import numpy as np
import pytest

from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.fuse import partition
from autotune.network import SharedKernels
from autotune.network.choice import choose_untuned
from autotune.target import Target

TARGET = Target("cuda -arch=sm_90")


@pytest.mark.parametrize("known_first", [True, False])
def test_a_choice_for_known_weights_is_not_that_for_others(known_first):
    weight = Constant.of(np.zeros((1001, 1001), "float16"))
    data = Variable(TensorType((512, 1001), "float16"), "data")
    functions = [
        partition(Graph.of(apply(ops.Dense(), data, each)))[0]
        for each in (weight, Variable(weight.type, "weight"))
    ]
    assert functions[0].signature == functions[1].signature
    alone = [choose_untuned(each, TARGET).key for each in functions]
    assert len(set(alone)) == 2
    choose = SharedKernels().remembering(choose_untuned)
    order = functions if known_first else functions[::-1]
    chosen = {id(each): choose(each, TARGET).key for each in order}
    assert [chosen[id(each)] for each in functions] == alone
