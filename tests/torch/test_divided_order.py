"""What torch runs between the parts of a graph: in order, once a call, on tensors as traced."""

import logging

import pytest

torch = pytest.importorskip("torch")

from tests.torch.test_compile import by_dynamo, same  # noqa: E402
from tests.torch.test_divided import Between, messages  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


drawn = []


@torch.library.custom_op("divided::drawn", mutates_args=())
def draw(size: int) -> torch.Tensor:
    """Return other numbers at each call, without saying so; it reads no tensor."""
    drawn.append(size)
    return torch.rand(size)


@draw.register_fake
def _(size):
    return torch.empty(size)


def steps(x):
    return torch.sin(torch.tanh(torch.sin(x * 1.5) + 1))


ORDERED = {
    "of_torch": lambda: torch.rand(16),
    "of_a_library": lambda: torch.ops.divided.drawn(16),
}


@pytest.mark.parametrize("name", ORDERED)
def test_calls_whose_turn_matters_keep_it_though_a_part_waits_for_a_later_one(name):
    rand = ORDERED[name]

    def model(x):
        after_a_part = steps(torch.ops.divided.turned(x)) * rand()
        # Without an order it would run first, for the part that the one above reads.
        return after_a_part, steps(rand() * x), steps(after_a_part)

    x = torch.randn(16, 16)
    fast = by_dynamo(model)
    with torch.no_grad():
        for seed in range(3):
            torch.manual_seed(seed)
            got = fast(x)
            torch.manual_seed(seed)
            for a, b in zip(got, model(x), strict=True):
                same(a, b)


@pytest.mark.parametrize("last", [torch.sin, torch.ops.divided.turned], ids=["whole", "divided"])
def test_an_operator_of_a_library_without_inputs_runs_at_each_call(last):
    def model(x):
        return last(steps(x + torch.ops.divided.drawn(16)))

    fast, x = by_dynamo(model), torch.randn(16, 16)
    with torch.no_grad():
        fast(x)
        drawn.clear()
        first, second = fast(x), fast(x)
    assert drawn == [16, 16]
    assert not torch.equal(first, second)


def test_torch_runs_nothing_twice_when_parameters_were_written():
    model = Between(lambda x: x + torch.ops.divided.drawn(16)).eval()
    fast, x = by_dynamo(model), torch.randn(4, 16)
    with torch.no_grad():
        fast(x)
        model.second.up.weight.mul_(2)
        torch.manual_seed(3)
        want = model(x)
        torch.manual_seed(3)
        drawn.clear()
        same(fast(x), want)
    assert drawn == [16]


def test_a_contiguous_copy_of_an_input_is_contiguous_for_torch_and_the_caller():
    def model(x):
        copy = x.contiguous()
        seen = torch.ops.divided.strides(x.contiguous()).sum()
        return copy, torch.ops.divided.turned(steps(x) + seen)

    x = torch.randn(16, 16).t()
    fast = by_dynamo(model)
    with torch.no_grad():
        for got, want in zip(fast(x), model(x), strict=True):
            same(got, want)
            assert got.stride() == want.stride()


def test_checks_that_torch_orders_by_tokens_run_in_order_between_parts(caplog):
    def model(x):
        return steps(torch.linalg.inv(steps(x) + 9 * torch.eye(16)))  # which checks for errors

    x, fast = torch.randn(16, 16), by_dynamo(model)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        same(fast(x), model(x))
        same(fast(x + 1), model(x + 1))
    (told,) = messages(caplog)
    assert "2 parts of a graph" in told
    assert "aten._linalg_check_errors.default (1)" in told


def test_a_check_that_fails_raises_what_torch_raises():
    def model(x):
        return steps(torch.linalg.inv(steps(x) * 0)), steps(x)

    x, fast = torch.randn(16, 16), by_dynamo(model)
    with torch.no_grad():
        for _ in range(2):
            with pytest.raises(RuntimeError, match="singular"):
                fast(x)


def test_calls_of_libraries_whose_results_nobody_reads_run_once_a_call_in_order():
    def model(x):
        y = steps(x)
        torch.ops.divided.drawn(1)
        torch.ops.divided.drawn(2)
        return steps(y)

    fast, x = by_dynamo(model), torch.randn(16, 16)
    with torch.no_grad():
        fast(x)
        drawn.clear()
        same(fast(x), model(x))
    assert drawn == [1, 2] * 2
