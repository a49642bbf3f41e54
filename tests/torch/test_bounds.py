"""Indices that are out of range: on a CPU they are errors, as in PyTorch."""

import pytest

torch = pytest.importorskip("torch")

import autotune.torch  # noqa: E402
from autotune.torch import backend  # noqa: E402

F = torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")
# What reads or writes at an index, and the least index that it takes.
READS = {
    "embedding": (lambda x, i: F.embedding(i, x) * 2, 0),
    "brackets": (lambda x, i: x[i] * 2, -7),
    "of an axis": (lambda x, i: x.t()[:, i].exp(), -7),
    "index_select": (lambda x, i: x.index_select(0, i) + 1, 0),
    "gather": (lambda x, i: x.gather(0, i[:, None].expand(3, 5)) + 1, 0),
    "scatter_add": (lambda x, i: x.scatter_add(0, i[:, None].expand(3, 5), x[:3]), 0),
    "put": (lambda x, i: x.index_put((i,), x[:3] * 2), -7),
    "bags": (lambda x, i: F.embedding_bag(i, x, torch.tensor([0, 1]), mode="sum") + 1, 0),
    "complex": (lambda x, i: torch.complex(x, x + 1)[i].abs(), -7),
}


class All(torch.nn.Module):
    def forward(self, x, *every):
        return [function(x, i) for (function, _), i in zip(READS.values(), every, strict=True)]


@pytest.fixture(scope="module")
def fast():
    right = [torch.tensor([6, 0, 2])] * len(READS)
    return autotune.torch.compile(All().eval(), (torch.randn(7, 5), *right))


@pytest.mark.many_cases
@pytest.mark.parametrize("name", READS)
def test_an_index_out_of_range_is_an_error(name, fast):
    x, (function, least) = torch.randn(7, 5), READS[name]
    right = [torch.tensor([6, 0, 2]) for _ in READS]
    place = list(READS).index(name)
    for index in (6, least):
        right[place] = torch.tensor([index, 1, 2])
        torch.testing.assert_close(fast(x, *right)[place], function(x, right[place]))
    for index in (7, least - 1):
        with pytest.raises(IndexError, match=rf"indices must be {least} to 6; one is not"):
            fast(x, *right[:place], torch.tensor([1, index, 2]), *right[place + 1 :])


def test_the_error_names_the_layer():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(7, 5)

        def forward(self, i):
            return self.words(i).softmax(-1) * 2 + 1

    made = autotune.torch.compile(Model().eval(), torch.tensor([6]))
    with pytest.raises(IndexError, match=r"words: indices must be 0 to 6"):
        made(torch.tensor([8]))


def test_a_known_index_out_of_range_is_left_to_torch():
    made = torch.compile(lambda x: x[:, torch.tensor([9])].exp(), backend=backend)
    with torch.no_grad(), pytest.raises((IndexError, RuntimeError)):
        made(torch.randn(3, 4))


@pytest.mark.many_cases
@pytest.mark.parametrize("offsets", [[1, 2, 3], [0, 2, 7], [0, -1, 3]], ids=str)
def test_offsets_of_bags_out_of_range_are_an_error(offsets):
    def bags(x, i, at):
        return F.embedding_bag(i, x, at, mode="sum").exp() + 1

    x, i = torch.randn(7, 5), torch.tensor([6, 0, 2, 2, 1])
    made = torch.compile(bags, backend=backend)
    with torch.no_grad():
        for right in ([0, 2, 3], [0, 5, 5]):
            torch.testing.assert_close(
                made(x, i, torch.tensor(right)), bags(x, i, torch.tensor(right))
            )
        with pytest.raises(IndexError, match="must be 0 to"):
            made(x, i, torch.tensor(offsets))
