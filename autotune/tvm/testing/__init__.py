"""Comparisons and decorators for scripts that test what they built, as in ``tvm.testing``.

The decorators mark tests for pytest, which has to be installed for them.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autotune.runtime.device import Device, device
from autotune.target import Target

Decorator = Callable[[Any], Any]
# Targets that tests run for, separated by semicolons, instead of all that are usable.
TARGETS_VARIABLE = "TVM_TEST_TARGETS"


def assert_allclose(
    actual: object, desired: object, rtol: float = 1e-7, atol: float = 1e-7
) -> None:
    """Raise AssertionError unless two arrays agree in shape and in value.

    Args:
        actual: numpy array, `NDArray`, or anything numpy can read.
        desired: the same, what it should be.
        rtol: relative tolerance.
        atol: absolute tolerance.
    """
    left, right = (
        np.asanyarray(a.numpy() if hasattr(a, "numpy") else a) for a in (actual, desired)
    )
    if left.shape != right.shape:
        raise AssertionError(f"shapes differ: {left.shape} and {right.shape}")
    np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, verbose=True)


def device_enabled(target: str | Target) -> bool:
    """Tell whether kernels can be built for a target and run here."""
    chosen = Target(target)
    return chosen.kind in ("llvm", "c", "cuda") and device(chosen).exist


def enabled_targets() -> list[tuple[str, Device]]:
    """Return the targets that can be used here, each with its device.

    The environment variable ``TVM_TEST_TARGETS`` may name fewer, or others.
    """
    named = os.environ.get(TARGETS_VARIABLE) or "llvm;cuda"
    return [(each, device(Target(each))) for each in named.split(";") if device_enabled(each)]


def _needs(what: str, exists: Callable[[], bool]) -> Callable[..., Any]:
    """Return a decorator, to be used with or without parentheses, that may skip a test."""

    def decorate(function: object = None) -> Any:
        import pytest

        mark = pytest.mark.skipif(not exists(), reason=f"needs {what}")
        return mark if function is None else mark(function)

    return decorate


requires_cuda = _needs("a CUDA device", lambda: device("cuda").exist)
requires_gpu = requires_cuda
requires_llvm = _needs("a CPU", lambda: True)


def uses_gpu(function: object = None) -> Any:
    """Mark a test as one that uses a GPU if there is one; it runs anyway."""

    def mark(test: object) -> Any:
        import pytest

        return pytest.mark.gpu(test)

    return mark if function is None else mark(function)


def main() -> None:
    """Run the tests of the script by pytest, and end with its exit status."""
    import pytest

    script = inspect.getfile(sys._getframe(1))
    raise SystemExit(pytest.main([script, *sys.argv[1:]]))


def fixture(function: Any = None, *, cache_return_value: bool = False) -> Any:
    """Make a function a fixture of pytest.

    Args:
        function: the function; without it a decorator is returned.
        cache_return_value: whether it is called once for all tests of the module.
    """
    import pytest

    scope: Any = "module" if cache_return_value else "function"
    return pytest.fixture(function, scope=scope)


def parameter(*values: object, ids: Sequence[str] | None = None) -> Any:
    """Return a fixture that has each of these values, for an attribute or a global name."""
    import pytest

    return pytest.fixture(params=values, ids=ids)(lambda request: request.param)


def parametrize_targets(*args: Any) -> Any:
    """Run a test for several targets; it takes ``target`` (a text) and ``dev``.

    Example::

        @tvm.testing.parametrize_targets("llvm", "cuda")
        def test_add(target, dev): ...

        @tvm.testing.parametrize_targets  # all that are usable here
        def test_multiply(target, dev): ...
    """
    if len(args) == 1 and callable(args[0]):
        return _parametrize([name for name, _ in enabled_targets()])(args[0])
    return _parametrize(list(args) or [name for name, _ in enabled_targets()])


def _parametrize(targets: list[str]) -> Decorator:
    import pytest

    cases = []
    for each in targets:
        skip = pytest.mark.skipif(not device_enabled(each), reason=f"{each} is not usable here")
        where = device(Target(each)) if device_enabled(each) else None
        cases.append(pytest.param(each, where, marks=[skip], id=str(each)))
    return pytest.mark.parametrize(("target", "dev"), cases)
