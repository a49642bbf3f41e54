import pytest

from autotune.auto_scheduler import SketchPolicy, register_workload, workload_registry
from tests.auto_scheduler.graphs import conv2d_layer, matmul
from tests.auto_scheduler.quick import QUICK


@pytest.fixture(scope="module", autouse=True)
def short_searches():
    """Search as users do."""


@pytest.fixture
def quick_searches(monkeypatch):
    monkeypatch.setattr(SketchPolicy, "DEFAULT_PARAMS", {**SketchPolicy.DEFAULT_PARAMS, **QUICK})


@pytest.fixture
def own_registry(monkeypatch):
    """Registered workloads are the test's own, and gone after it."""
    monkeypatch.setattr(workload_registry, "WORKLOAD_FUNC_REGISTRY", {})


@pytest.fixture
def own_workloads(own_registry):
    """The workloads of `graphs` that most tests use, in a registry of the test's own."""
    register_workload("matmul", f=matmul)
    register_workload("conv2d_layer", f=conv2d_layer)
