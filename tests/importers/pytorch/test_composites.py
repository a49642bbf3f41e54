"""Programs are taken apart without touching operators that are written as they always are."""

import contextlib
import threading
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from autotune.importers import from_pytorch  # noqa: E402
from autotune.importers.pytorch import program  # noqa: E402
from autotune.importers.pytorch.composites import few_composites_overridden  # noqa: E402

LISTING, OVERRIDING = torch._export.utils, torch.export.exported_program
LISTS, OVERRIDES = "_materialize_cpp_cia_ops", "_override_composite_implicit_decomp"
own = pytest.mark.skipif(
    not (hasattr(LISTING, LISTS) and hasattr(OVERRIDING, OVERRIDES)),
    reason="this torch has no such functions",
)


class Model(torch.nn.Module):
    """Of operators that are converted, taken apart by torch, taken apart by us, and written."""

    def forward(self, x):
        y = torch.nn.functional.dropout(torch.special.expit(x).flatten(1), 0.5, self.training)
        y = torch.nn.functional.celu(y) + torch.nn.functional.pairwise_distance(x, 2 * x).sum()
        return torch.cosine_similarity(y, y + 1), y.add_(1).unflatten(1, (2, 2)).tile(2).diff()


def exported():
    return torch.export.export(Model().eval(), (torch.ones(3, 4),), strict=False)


@own
def test_operators_are_listed_once_and_few_are_overridden(monkeypatch):
    from_pytorch(exported())  # torch keeps those of ATen
    listed, overridden = [], []
    lists, overrides = getattr(LISTING, LISTS), getattr(OVERRIDING, OVERRIDES)
    monkeypatch.setattr(LISTING, LISTS, lambda: listed.append(lists()))

    def counted(table):
        overridden.append(len(table))
        return overrides(table)

    monkeypatch.setattr(OVERRIDING, OVERRIDES, counted)
    from_pytorch(exported())
    assert len(listed) == 1
    assert overridden
    assert max(overridden) < 200


def test_a_program_is_the_one_that_torch_makes_with_all_overridden(monkeypatch):
    mine = program.exported(exported(), None)
    monkeypatch.setattr(program, "few_composites_overridden", contextlib.nullcontext)
    theirs = program.exported(exported(), None)
    assert str(mine.graph) == str(theirs.graph)
    assert str(mine.graph_signature) == str(theirs.graph_signature)


@own
def test_torch_has_its_functions_again_when_the_last_thread_has_left():
    before = getattr(LISTING, LISTS), getattr(OVERRIDING, OVERRIDES)
    entered, leave = threading.Event(), threading.Event()

    def stay():
        with few_composites_overridden():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=stay)
    thread.start()
    assert entered.wait(60)
    with pytest.raises(ZeroDivisionError), few_composites_overridden():
        raise ZeroDivisionError
    assert getattr(LISTING, LISTS) is not before[0]
    leave.set()
    thread.join()
    assert (getattr(LISTING, LISTS), getattr(OVERRIDING, OVERRIDES)) == before


class Shifted:
    """Has no name, as functions have one."""

    def __call__(self, x, by):
        return x.cos() + by


def test_a_composite_operator_may_be_an_object_of_python(monkeypatch):
    library = torch.library.Library("autotune_test", "FRAGMENT")
    library.define("shifted(Tensor x) -> Tensor")
    library.impl("shifted", lambda x: x.cos() + 2, "CompositeImplicitAutograd")
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    operator = torch.ops.autotune_test.shifted.default
    operator.py_impl(composite)(partial(Shifted(), by=2))
    try:
        test_a_program_is_the_one_that_torch_makes_with_all_overridden(monkeypatch)
    finally:
        del operator.py_kernels[composite]
        library._destroy()
