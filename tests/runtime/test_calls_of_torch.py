"""Calls of a built function with tensors of torch."""

import math

import numpy as np
import pytest

import autotune
from autotune.errors import KernelError
from autotune.kernel import SourceKernel, arg
from autotune.runtime import array
from tests.runtime.test_calls import AXPY, N, zeros


@pytest.fixture
def x():
    return np.arange(N, dtype="float32")


def test_tensors_of_torch_go_through_python_at_the_first_call_only(x, monkeypatch):
    torch = pytest.importorskip("torch")
    from autotune.runtime.call import dispatch

    axpy, y = autotune.build(AXPY, target="c"), torch.zeros(N)
    axpy(1.0, torch.from_numpy(x), y, N)
    monkeypatch.setattr(dispatch, "bind", None)
    axpy(float("nan"), torch.from_numpy(x), torch.nn.Parameter(y, requires_grad=False), N)
    assert y.isnan().all()


@pytest.mark.parametrize("kind", ["numpy", "ours", "torch", "torch parameter"])
def test_arrays_of_all_kinds_are_used_in_place(build, x, kind):
    torch = pytest.importorskip("torch") if "torch" in kind else None
    made = {
        "numpy": lambda v: v,
        "ours": array,
        "torch": lambda v: torch.from_numpy(v),
        "torch parameter": lambda v: torch.nn.Parameter(torch.from_numpy(v)),
    }[kind]
    axpy, xs, y = build(AXPY), made(x.copy()), made(zeros())
    with torch.no_grad() if torch else pytest.MonkeyPatch.context():
        for _ in range(3):
            axpy(0.5, xs, y, N)
    got = y.detach().numpy() if torch else y if kind == "numpy" else y.numpy()
    np.testing.assert_array_equal(got, 1.5 * x)


@pytest.mark.parametrize("makes", ["plain", "detached", "parameter"])
def test_torch_knows_which_of_its_tensors_were_written(build, x, makes):
    torch = pytest.importorskip("torch")
    whole = torch.nn.Parameter(torch.zeros(N)) if makes == "parameter" else torch.zeros(N)
    y = whole.detach() if makes == "detached" else whole
    axpy, xs = build(AXPY), torch.from_numpy(x)
    with torch.no_grad():
        for turn in range(1, 4):
            axpy(1.0, xs, y, N)
            assert (whole._version, xs._version) == (turn, 0)


def test_backward_refuses_what_was_written_since_it_was_saved(build, x):
    torch = pytest.importorskip("torch")
    axpy, xs = build(AXPY), torch.from_numpy(x)
    for _ in range(2):
        a = torch.zeros(N, requires_grad=True)
        saved = (a * 1).exp()
        axpy(1.0, xs, saved.detach(), N)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            saved.sum().backward()


def test_what_inference_mode_makes_is_written_anywhere(build, x):
    torch = pytest.importorskip("torch")
    axpy, xs = build(AXPY), torch.from_numpy(x)
    with torch.inference_mode():
        y = torch.zeros(N)
        axpy(1.0, xs, y, N)
        axpy(1.0, xs, y, N)
    axpy(1.0, xs, y, N)
    np.testing.assert_array_equal(y.numpy(), 3 * x)


@pytest.mark.parametrize("quick", [None, math.sqrt])
def test_older_torch_raises_versions_one_by_one(monkeypatch, quick):
    torch = pytest.importorskip("torch")
    from autotune.runtime.arrays import versions

    with monkeypatch.context() as patch:
        patch.setattr(torch._C, "_increment_version", quick)
        raising = versions.raise_versions.__wrapped__()
    one = torch.zeros(2)
    raising((one, one))
    assert one._version == 2


SINGLE = SourceKernel(
    "single",
    "void single(const float *x, float *y) { y[0] = x[0]; }",
    [arg("x", (1,)), arg("y", (1,), role="out")],
)


def test_a_tensor_that_is_minus_its_memory_is_refused(build):
    torch = pytest.importorskip("torch")
    single, y = build(SINGLE), torch.zeros(1)
    negated = torch.full((1,), 3j).conj().imag  # -3; what lies there is 3
    for _ in range(2):
        for args in ((negated, y), (torch.ones(1), negated)):
            with pytest.raises(KernelError, match=r"other sign.*resolve_neg"):
                single(*args)
        assert y == 0
        single(torch.zeros(1), y)
    single(negated.resolve_neg(), y)
    assert y == -3


def test_an_imaginary_part_of_conjugated_numbers_is_refused_until_it_is_made_whole(build, x):
    torch = pytest.importorskip("torch")
    axpy, y = build(AXPY), torch.zeros(N)
    for turn in (1, 2):
        negated = torch.complex(torch.zeros(N), torch.from_numpy(x)).conj().imag
        assert negated.is_neg()
        with pytest.raises(KernelError, match="other sign"):
            axpy(1.0, negated, y, N)
        axpy(1.0, negated.contiguous(), y, N)
        np.testing.assert_array_equal(y.numpy(), -turn * x)


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_what_holds_no_memory_is_refused_and_not_read(build, x):
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    axpy, y = build(AXPY), torch.zeros(N)
    axpy(1.0, torch.from_numpy(x), y, N)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.zeros(N))
    for wrong in (fake, torch.zeros(N, device="meta"), torch.zeros(N).to_sparse()):
        with pytest.raises(KernelError, match="argument 'x'"):
            axpy(1.0, wrong, y, N)
    with pytest.raises(KernelError, match=r"'x': it requires a gradient.*as_op"):
        axpy(1.0, torch.zeros(N, requires_grad=True), y, N)
    np.testing.assert_array_equal(y.numpy(), x)
