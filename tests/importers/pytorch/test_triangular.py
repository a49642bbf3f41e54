"""Systems of equations with triangular matrices, solved by products."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.importers import from_pytorch

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")


class Solve(torch.nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.how = how

    def forward(self, a, b):
        return torch.linalg.solve_triangular(a, b, **self.how)


@pytest.mark.many_cases
@pytest.mark.parametrize("count", [1, 6, 16])
@pytest.mark.parametrize("upper", [False, True], ids=["lower", "upper"])
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("unitriangular", [False, True], ids=["own diagonal", "ones"])
def test_triangular_systems_are_solved(count, upper, left, unitriangular):
    generator = torch.Generator().manual_seed(count)
    a = torch.randn(2, 3, count, count, generator=generator, dtype=torch.float64)
    a = a * 0.3 + torch.eye(count) * 2  # the other triangle is not read
    b = torch.randn(3, *((count, 5) if left else (5, count)), generator=generator).double()
    model = Solve(upper=upper, left=left, unitriangular=unitriangular)
    (got,) = from_pytorch(model.eval(), (a, b)).graph.run(a.numpy(), b.numpy())
    np.testing.assert_allclose(got, model(a, b), rtol=1e-10, atol=1e-10)


def test_large_systems_are_left_to_torch():
    a, b = torch.eye(257), torch.ones(257, 2)
    with pytest.raises(GraphError, match="linalg_solve_triangular"):
        from_pytorch(Solve(upper=False).eval(), (a, b))
