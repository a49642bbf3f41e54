"""What tests of built functions share."""

import pytest

import autotune
from autotune.runtime.call import native


@pytest.fixture(params=["C", "Python"])
def build(request, monkeypatch):
    """Builds a kernel whose calls go through the launcher in C, or through Python alone."""
    if request.param == "Python":
        monkeypatch.setattr(native, "_found", [(None, "not wanted")])
    elif native.launcher() is None:
        pytest.skip(native.why_not())
    return lambda kernel: autotune.build(kernel, target="c")
