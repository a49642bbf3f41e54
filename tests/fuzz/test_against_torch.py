"""Random calls by name, of numbers of all kinds, give what PyTorch gives.

pytest tests/fuzz/test_against_torch.py --calls 2000
"""

import pytest

pytest.importorskip("torch")

from tests.fuzz.against_torch import arrays, difference, draw, function, result
from tests.fuzz.calls import DRAWN
from tests.fuzz.torch_oracle import ATTENTION, ORACLES

# Elements of a call; threads of the emulator take their time.
MOST = {"c": 1 << 16, "cuda -emulate": 1 << 11}


def test_every_operator_that_is_drawn_has_an_oracle():
    assert DRAWN.keys() == ORACLES.keys() | ATTENTION.keys() | {"clip"}


@pytest.mark.parametrize("target", MOST)
def test_random_calls_on_numbers_of_all_kinds_give_what_torch_does(target, call_seeds, tmp_path):
    failures = []
    for seed in call_seeds:
        call = draw(seed, target, most=MOST[target])
        inputs, got = arrays(call), result(call)
        function(call, tmp_path / "store.log")(*inputs, got)
        why = difference(call, inputs, got)
        if why:
            failures.append(f"{call}: {why}")
    assert not failures, "\n".join(failures)
