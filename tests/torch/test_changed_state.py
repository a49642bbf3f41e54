"""What changes between the calls of a compiled model counts."""

import copy
import importlib
import logging
import threading
import time

import pytest

import autotune
from autotune.errors import KernelError
from tests.torch.test_compile import BOTH, Small, by_dynamo, same

torch = pytest.importorskip("torch")
nn, pytree = torch.nn, torch.utils._pytree
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("way", BOTH)
def test_statistics_of_a_batch_norm_count_though_torch_counts_no_write(way):
    model, x = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval(), torch.randn(8, 4)
    with torch.no_grad():
        fast = BOTH[way](model, x)
        same(fast(x), model(x))
        version = model[1].running_mean._version
        model.train()(torch.randn(8, 4) + 3)
        assert model[1].running_mean._version == version
        model.eval()
        same(fast(x), model(x))


@pytest.mark.parametrize("way", BOTH)
def test_steps_of_a_fused_optimiser_count_though_torch_counts_no_write(way):
    model, x = Small().eval(), torch.randn(2, 6)
    with torch.no_grad():
        fast = BOTH[way](model, x)
        fast(x)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.5, fused=True)
    model(x).square().sum().backward()
    optimiser.step()
    with torch.no_grad():
        same(fast(x), model(x))


def test_fused_steps_leave_what_they_do_not_write_to_backward_passes():
    with torch.no_grad():  # from then on steps are reported
        autotune.torch.compile(Small().eval(), torch.randn(2, 6))
    written, kept = (nn.Parameter(torch.ones(3)) for _ in range(2))
    optimiser = torch.optim.AdamW([written, kept], fused=True)
    later = kept.square().sum()
    written.square().sum().backward()
    optimiser.step()
    later.backward()
    same(kept.grad, torch.full((3,), 2.0))


def test_a_model_in_another_dtype_is_compiled_for_it():
    model, x = Small().eval(), torch.randn(2, 6)
    with torch.no_grad():
        fast = by_dynamo(model)
        same(fast(x), model(x))
        model.double()
        same(fast(x.double()), model(x.double()))
        model.float()
        same(fast(x), model(x))


def test_training_mode_is_torchs_and_eval_comes_back():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval(), torch.randn(8, 4)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        fast = by_dynamo(model)
        for training in (False, True, False):
            model.train(training), twin.train(training)
            same(fast(x), twin(x))
        same(model[1].running_mean, twin[1].running_mean)


def test_new_parameters_and_modules_are_seen_by_dynamo():
    model, x = Small().eval(), torch.randn(2, 6)
    with torch.no_grad():
        fast = by_dynamo(model)
        same(fast(x), model(x))
        model.up.weight = nn.Parameter(torch.randn(16, 6))
        same(fast(x), model(x))
        model.down = nn.Linear(16, 6)
        same(fast(x), model(x))


def test_models_are_compiled_by_threads_side_by_side():
    model, failed = Small().eval(), []
    inputs = [torch.randn(rows, 6) for rows in (1, 2, 3)]
    with torch.no_grad():
        wanted = [model(x) for x in inputs]

    def run(i):
        try:
            with torch.no_grad():
                for each in (i, i + 1, i + 2):
                    same(called(inputs[each % 3]), wanted[each % 3])
        except Exception as error:
            failed.append(error)

    def called(x):
        # While another thread exports, torch notes calls of graphs in a dict that threads share.
        for _ in range(100):
            try:
                return fast(x)
            except KeyError as error:
                if error.args != ("custom",):
                    raise
                time.sleep(0.05)
        raise TimeoutError("torch exports still")

    # A function: while torch exports in one thread, calls of modules in others are not safe.
    fast = torch.compile(lambda x: model(x), backend=autotune.torch.backend)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed, failed[0]


def test_numbers_that_dynamo_passes_as_tensors_are_constants(caplog, monkeypatch):
    class Scaled(nn.Module):
        def forward(self, x, factor):
            return x * factor

    monkeypatch.setattr(importlib.import_module("autotune.torch.backend"), "_MOST_NUMBERS", 3)
    model, x = Scaled().eval(), torch.randn(3)
    fast = by_dynamo(model)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        for factor in (0.5, 1.5, float("nan"), float("nan"), 2.5, 1.5):
            torch.testing.assert_close(fast(x, factor), model(x, factor), equal_nan=True)
        assert not caplog.records
        for factor in (3.5, 4.5, 1.5):
            same(fast(x, factor), model(x, factor))
    assert len(caplog.records) == 1
    assert "numbers that it takes differ from call to call" in caplog.text


def test_a_norm_in_a_graph_of_dynamic_shapes_is_compiled(caplog):
    model = Small().eval()
    fast = by_dynamo(model, dynamic=True)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        for rows in (2, 3):
            x = torch.randn(rows, 6)
            same(fast(x), model(x))
    assert not caplog.records


# ---- autotune.torch.compile


def test_arguments_are_put_together_as_those_of_the_example():
    class Named(nn.Module):
        def forward(self, pair, *, factor=2, add=None):
            return pair["a"] * factor - pair["b"]

    model, a, b = Named().eval(), torch.randn(3), torch.randn(3)
    fast = autotune.torch.compile(model, ({"a": a, "b": b},), {"factor": 3})
    same(fast({"a": a, "b": b}, factor=3), a * 3 - b)
    same(fast({"b": b, "a": a}, factor=3), a * 3 - b)
    with pytest.raises(KernelError, match="are constants: expected 3, as the example was, got 4"):
        fast({"a": a, "b": b}, factor=4)
    with pytest.raises(KernelError, match=r"expected 3, as the example was, got 3\.0"):
        fast({"a": a, "b": b}, factor=3.0)  # of which results of integers would be floats
    for args, kwargs in (((a, b), {"factor": 3}), (({"a": a, "c": b},), {"factor": 3})):
        with pytest.raises(KernelError, match="expected arguments as the example's"):
            fast(*args, **kwargs)
    expected = r"example's, \(\{'a': tensor, 'b': tensor\}, factor=3\), got \(\{'a': tensor, "
    with pytest.raises(KernelError, match=expected):
        fast({"a": a, "b": b})


def test_what_the_example_passed_by_position_may_be_passed_by_name():
    class Difference(nn.Module):
        def forward(self, minuend, subtrahend, scale=None):
            return (minuend - subtrahend).exp()

    model, a, b = Difference().eval(), torch.randn(3), torch.randn(3)
    want = (a - b).exp()
    for fast in (
        autotune.torch.compile(model, (a, b)),
        autotune.torch.compile(model, a, {"subtrahend": b}),
        autotune.torch.compile(model, (), {"subtrahend": b, "minuend": a}),
    ):
        same(fast(a, b), want)
        same(fast(a, subtrahend=b), want)
        same(fast(subtrahend=b, minuend=a), want)
        for args, kwargs in (((a, b), {"minuend": a}), ((a, b, None), {}), ((a,), {"other": b})):
            with pytest.raises(KernelError, match="expected arguments as the example's"):
                fast(*args, **kwargs)


class Pair:
    """Two tensors, and nothing else."""

    def __init__(self, first, second):
        assert all(each is None or isinstance(each, torch.Tensor) for each in (first, second))
        self.first, self.second = first, second


def test_the_example_may_have_classes_that_take_tensors_alone():
    pytree.register_pytree_node(
        Pair,
        lambda pair: ([pair.first, pair.second], None),
        lambda parts, context: Pair(*parts),
        flatten_with_keys_fn=lambda pair: (
            [(pytree.GetAttrKey(key), value) for key, value in vars(pair).items()],
            None,
        ),
    )

    class Sum(nn.Module):
        def forward(self, pair, others):
            return pair.first + pair.second + others[0]

    a, b = torch.randn(3), torch.randn(3)
    fast = autotune.torch.compile(Sum().eval(), (Pair(a, b), (b,)))
    same(fast(Pair(b, a), (a,)), a + b + a)
    with pytest.raises(
        KernelError, match=r"\(Pair\(tensor, tensor\), \(tensor,\)\), got \(tensor,"
    ):
        fast(a, [b])


def test_copies_have_parameters_of_their_own_and_cannot_be_pickled():
    model, x = Small().eval(), torch.randn(2, 6)
    fast = autotune.torch.compile(model, x)
    other = copy.deepcopy({"fast": fast})["fast"]
    before = fast(x)
    with torch.no_grad():
        model.up.weight.mul_(2)
        same(fast(x), model(x))
    same(other(x), before)
    assert copy.copy(fast) is fast
    with pytest.raises(KernelError, match="cannot be pickled; save the model"):
        fast.__reduce_ex__(2)


def test_a_gradient_that_is_not_there_is_told_once(caplog):
    fast = autotune.torch.compile(Small().eval(), torch.randn(2, 6))
    x = torch.randn(2, 6, requires_grad=True)
    with caplog.at_level(logging.WARNING, "autotune"):
        assert not fast(x).requires_grad
        fast(x)
        fast(x.detach())
    told = [each.getMessage() for each in caplog.records if each.name == "autotune"]
    assert [each[:15] for each in told] == ["compiled model:"]


def test_tensors_of_transforms_are_refused():
    fast = autotune.torch.compile(Small().eval(), torch.randn(2, 6))
    with pytest.raises(KernelError, match=r"an input has no memory.*not those of vmap"):
        torch.vmap(fast)(torch.randn(5, 2, 6))


def test_negated_memory_is_read_with_its_sign():
    class Twice(nn.Module):
        def forward(self, x):
            return x * 2

    fast = autotune.torch.compile(Twice().eval(), torch.randn(64))
    x = torch._neg_view(torch.randn(64))
    assert x.is_neg()
    assert x.is_contiguous()
    same(fast(x), x * 2)


@pytest.mark.parametrize("way", BOTH)
def test_results_that_are_constants_are_new_tensors(way):
    class Constants(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4))

        def forward(self, x):
            return x + 1, self.weight * 2, torch.arange(4)

    model, x = Constants().eval(), torch.randn(4)
    with torch.no_grad():
        fast = BOTH[way](model, x)
        for _ in range(2):
            for found, expected in zip(fast(x), model(x), strict=True):
                same(found, expected)
                found.zero_()
