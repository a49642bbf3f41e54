"""Complex tensors within a graph, against PyTorch in complex128."""

import pytest

torch = pytest.importorskip("torch")

from autotune.errors import GraphError  # noqa: E402
from autotune.importers import from_pytorch  # noqa: E402
from tests.importers.pytorch.families import Family, t  # noqa: E402


def of(function):
    """Return a function of real tensors that are the parts of two complex ones."""

    def real(x, y):
        made = function(torch.complex(x, y), torch.complex(y, x))
        several = made if isinstance(made, tuple) else (made,)
        return tuple(torch.view_as_real(each) if each.is_complex() else each for each in several)

    return real


WHOLE = torch.tensor([2, 0])
CASES = {
    "sums": lambda a, b: (a + b, a - b, a.real - b, a + 2j, 1 - a, torch.add(a, b, alpha=3)),
    "products": lambda a, b: (a * b, a * b.real, a * 2.5, a * 1j, a * (1 - 2j)),
    "quotients": lambda a, b: (a / b, a / b.real, a.real / b, a / 4, a / 2j),
    "of matrices": lambda a, b: (a @ b.t(), a[None] @ b.t()[None], a.real.to(a.dtype) @ b.t()),
    "conjugates": lambda a, b: (a.conj() * b, (a * b).conj().resolve_conj(), a.conj().imag + 1),
    "absolute": lambda a, b: (a.abs(), torch.polar(a.abs(), b.real), torch.exp(a)),
    "views": lambda a, b: (a.t(), a[:, 1:], a[0], a.reshape(2, -1), a[None].expand(2, 3, 4)),
    "moves": lambda a, b: (torch.cat([a, b]), torch.stack([a, b], 1), a.roll(1, 1), a.flip(0)),
    "parts of several": lambda a, b: (*a.unbind(0), *b.chunk(2, 1), a.split([1, 3], 1)[1]),
    "indices": lambda a, b: (a[torch.tensor([2, 0])], b.index_select(1, torch.tensor([3, 3]))),
    "reductions": lambda a, b: (a.sum(1), a.mean(0), b.cumsum(1), -a),
    "joins with real ones": lambda a, b: torch.cat([a, b.real.to(a.dtype)], 1),
    "joins with whole ones": lambda a, b: (torch.cat([a, b.real.long()]), a[:, WHOLE]),
    "sums of whole ones": lambda a, b: a.real.long().sum(0, dtype=a.dtype),
    "inverses": lambda a, b: (1 / a, a.real / b, (a * 1e-200) / (b * 1e-200), a * 1e200 / b),
    "far from one": lambda a, b: ((a * 1e200).abs(), (a * 1e-200).abs() * 1e200, (a * 0).abs()),
    "of another width": lambda a, b: a.to(torch.complex64).to(torch.complex128) + b,
}
COMPLEX = Family(
    {name: (of(function), t(3, 4), t(3, 4, seed=5)) for name, function in CASES.items()}
)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", COMPLEX.cases)
def test_complex_numbers_are_those_of_torch(name):
    COMPLEX.check(name, rtol=1e-6 if name == "of another width" else 1e-9)


class Turned(torch.nn.Module):
    def forward(self, x):
        return torch.view_as_complex(x) * 1j


def test_a_complex_result_is_refused_with_what_to_return():
    with pytest.raises(GraphError, match="neither write nor return complex"):
        from_pytorch(Turned().eval(), t(3, 2))
