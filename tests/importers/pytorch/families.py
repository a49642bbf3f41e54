"""Functions of torch, imported together as one program, against PyTorch in float64."""

import functools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from autotune.importers import from_pytorch  # noqa: E402


def t(*shape, seed=0):
    """Return numbers of both signs."""
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def whole(high, *shape, seed=1):
    """Return whole numbers from 0 on."""
    return torch.from_numpy(np.random.default_rng(seed).integers(0, high, size=shape))


class Module(torch.nn.Module):
    """Functions as one module, each with its own inputs; torch exports fifty as fast as one."""

    def __init__(self, cases):
        super().__init__()
        self.cases = cases

    def forward(self, *args):
        given, results = iter(args), []
        for function, *own in self.cases:
            results += outputs(function(*[next(given) for _ in own]))
        return tuple(results)


def outputs(result):
    """Return the outputs of a function, of which there are one or several."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


def run(cases):
    """Import functions of tensors, run their graph in numpy; return pairs of outputs for each."""
    args = [each for _, *own in cases for each in own]
    graph = from_pytorch(Module(cases).eval(), tuple(args)).graph
    want = [outputs(function(*[each.clone() for each in own])) for function, *own in cases]
    got = graph.run(*[each.numpy() for each in args])
    assert len(got) == sum(map(len, want))
    mine = iter(got)
    return [[(next(mine), each.numpy()) for each in results] for results in want]


def compare(pairs, rtol=1e-9):
    """Compare the outputs of a function with those of torch."""
    for mine, theirs in pairs:
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=1e-9)


def check(function, *args, rtol=1e-9):
    """Import a function of tensors, run its graph in numpy, and compare."""
    check_each((function, *args), rtol=rtol)


def check_each(*cases, rtol=1e-9):
    """Import functions with their inputs as one program, and compare each."""
    for pairs in run(cases):
        compare(pairs, rtol)


class Family:
    """Functions with their inputs by name, which are imported together when one is checked."""

    def __init__(self, cases):
        self.cases = cases

    @functools.cached_property
    def results(self):
        """The outputs by name; none if the functions cannot be imported together."""
        try:
            return dict(zip(self.cases, run(list(self.cases.values())), strict=True))
        except Exception:  # which one it is, is found alone
            return {}

    def check(self, name, rtol=1e-9):
        """Compare one of them."""
        compare(self.results.get(name) or run([self.cases[name]])[0], rtol)
