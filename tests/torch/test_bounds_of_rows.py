"""Rows that are written or added at indices counted from the front alone, as in PyTorch."""

import pytest

torch = pytest.importorskip("torch")

import autotune.torch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
ROWS = {
    "index_copy": lambda x, i, y: x.index_copy(1, i, y * 2),
    "index_add": lambda x, i, y: x.index_add(-1, i, y, alpha=2),
    "one row": lambda x, i, y: x.index_copy(1, i[1], y[:, :1]),
    "of no axis": lambda x, i, y: x[0, 0].index_add(0, i[1] - i[1], y[0, 0]).index_copy(
        0, i[1:2] - i[1], y[0, 1]
    ),
}  # fmt: skip


class All(torch.nn.Module):
    def forward(self, x, y, *every):
        return [function(x, i, y) for function, i in zip(ROWS.values(), every, strict=True)]


@pytest.fixture(scope="module")
def fast():
    places = [torch.tensor([6, 0, 2])] * len(ROWS)
    return autotune.torch.compile(All().eval(), (torch.randn(5, 7), torch.randn(5, 3), *places))


@pytest.mark.many_cases
@pytest.mark.parametrize("name", ROWS)
def test_rows_are_written_as_by_torch(name, fast):
    x, y, place = torch.randn(5, 7), torch.randn(5, 3), list(ROWS).index(name)
    for index in ([6, 0, 2], [1, 4, 1]):
        places = [torch.tensor(index) for _ in ROWS]
        got = fast(x, y, *places)[place]
        torch.testing.assert_close(got, ROWS[name](x, places[place], y))


@pytest.mark.many_cases
@pytest.mark.parametrize("name", ["index_copy", "index_add", "one row"])
@pytest.mark.parametrize("index", [-1, 7], ids=str)
def test_an_index_from_the_end_is_an_error(name, index, fast):
    x, y, place = torch.randn(5, 7), torch.randn(5, 3), list(ROWS).index(name)
    places = [torch.tensor([6, 0, 2]) for _ in ROWS]
    places[place] = torch.tensor([0, index, 2])
    with pytest.raises((IndexError, RuntimeError)):
        ROWS[name](x, places[place], y)
    with pytest.raises(IndexError, match="indices must be 0 to 6; one is not"):
        fast(x, y, *places)


@pytest.mark.parametrize("places", [[0, 1, 2], [4, 0, 4]], ids=str)
def test_known_places_are_written(places):
    def written(x, y):
        i = torch.tensor(places)
        return x.exp().index_copy(1, i, y).index_add(0, i, x[:3] * 2)

    x, y = torch.randn(5, 7), torch.randn(5, 3)
    made = torch.compile(written, backend=autotune.torch.backend)
    with torch.no_grad():
        torch.testing.assert_close(made(x, y), written(x, y))
