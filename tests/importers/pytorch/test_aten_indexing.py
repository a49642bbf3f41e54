"""Reading and writing where indices say, against PyTorch in float64."""

import pytest

torch = pytest.importorskip("torch")

from autotune.errors import GraphError  # noqa: E402
from tests.importers.pytorch.families import Family, check, check_each, t, whole  # noqa: E402

F = torch.nn.functional


INDEXING = {
    "embedding": (lambda n, w: F.embedding(n, w), whole(7, 2, 3), t(7, 4)),
    "known places": (lambda x: x[:, torch.tensor([2, 0, -1])], t(2, 4, 3)),
    "two known places": (lambda x: x[torch.tensor([1, 0]), torch.tensor([2, 3])], t(2, 4, 3)),
    "places apart": (lambda x, n: x[n, :, n], t(3, 4, 3), whole(3, 5)),
    "places of the data": (lambda x, n, m: x[:, n, m], t(2, 4, 3), whole(4, 5), whole(3, 5)),
    "negative places": (lambda x, n: x[n - 2], t(4, 3), whole(4, 5)),
    "index_select": (lambda x, n: x.index_select(1, n), t(2, 4), whole(4, 3)),
    "gather": (lambda x, n: x.gather(1, n), t(3, 4, 2), whole(4, 3, 2, 2)),
    "argmax": (lambda x: (x.argmax(1), x.argmin(-1, keepdim=True), x.argmax()), t(3, 4)),
    "one_hot": (lambda n: F.one_hot(n, 5).double(), whole(5, 3)),
}


@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def grouped(rows: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Multiply groups of rows, as an operator of transformers does."""
    begins = [0, *ends.tolist()]
    pairs = zip(begins, begins[1:], weights, strict=False)
    return torch.cat([rows[begin:end] @ weight for begin, end, weight in pairs])


grouped.register_fake(lambda rows, weights, ends: rows.new_empty(rows.shape[0], weights.shape[2]))


def sorted_by_expert(rows, experts, weights):
    """Return products of rows with the weights of their experts, as mixtures of experts do."""
    places, order = torch.sort(experts)
    counts = torch.histc(places.double(), bins=weights.shape[0], min=0, max=weights.shape[0] - 1)
    ends = torch.cumsum(counts, 0).to(torch.int32)
    product = torch.ops.transformers.grouped_mm_fallback(
        rows[order], weights.transpose(1, 2), ends
    )
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order))
    return product[back]


def assigned(x, n, m, source):
    x = x.clone()
    x[:, n - 2, m] = source
    return x


def put(x, n, source, accumulate=False):
    return x.index_put((n,), source, accumulate)


INDEXING |= {
    "written places of the data": (put, t(6, 3), whole(6, 4), t(4, 3)),
    "places added to": (lambda *a: put(*a, True), t(6, 3), whole(6, 4, seed=3), t(4, 3)),
    "one number written": (lambda x, n: put(x, n, torch.tensor(2.0).double()), t(5), whole(5, 3)),
    "places of two axes": (
        assigned, t(2, 4, 3, 2), whole(4, 5), whole(3, 5), t(2, 5, 2)),
    "what a mask hides": (
        lambda x: x.index_put((x[..., 0] > 0,), torch.tensor(-1.0).double()), t(4, 3, 2)),
    "histogram": (lambda x: torch.histc(x, 5, -1, 1.5), t(40)),
    "few experts": (sorted_by_expert, t(12, 4), whole(3, 12), t(3, 5, 4)),
    "many experts": (sorted_by_expert, t(2, 4), whole(9, 2), t(9, 5, 4)),
}  # fmt: skip
INDEXING = Family(INDEXING)


@pytest.mark.parametrize("name", INDEXING.cases)
def test_indexing_is_that_of_torch(name):
    INDEXING.check(name)


@pytest.mark.parametrize("reduction", ["sum", "prod", "amax", "amin", "mean"])
def test_what_is_written_at_indices_is_combined_as_torch_does(reduction):
    places = torch.tensor([[0, 2, 2, 1], [1, 1, 1, 1]])

    def combined(x, i, y):
        alone = x.scatter_reduce(1, i, y, reduction, include_self=False)
        return x.scatter_reduce(1, i, y, reduction), alone

    check(combined, t(2, 3), places, t(2, 4, seed=1))


def test_an_update_that_is_infinite_is_added_to_its_own_place_only():
    updates = t(2, 4)
    updates[0, 1], updates[1, 2] = float("inf"), float("nan")
    check(lambda x, i, s: x.scatter_add(1, i, s), t(2, 6), whole(6, 2, 4), updates)


def test_elements_are_written_and_added_where_the_data_say():
    order = torch.argsort(t(3, 4, 2), 1)
    added = t(4, 2), whole(4, 9, 2), t(9, 2, seed=5)
    check_each(
        (lambda x, i, s: x.scatter(1, i, s), t(3, 6, 2), order, t(3, 4, 2, seed=3)),
        (lambda x, i: x.scatter(0, i, 2.5), t(6, 2), whole(6, 2, 2)),
        (lambda x, i, s: x.scatter_add(0, i, s), *added),
    )


def test_writes_to_a_tensor_without_axes_are_refused():
    given = t(), torch.tensor(0), t(seed=1)
    for write in (
        lambda x, i, s: x.scatter(0, i, s),
        lambda x, i, s: x.scatter_add(0, i, s),
        lambda x, i, s: x.scatter_reduce(0, i, s, "mean"),
    ):
        with pytest.raises(GraphError, match=r"the data must be a tensor with an axis"):
            check(write, *given)


MODES = ("sum", "mean", "max")
BAGS = {
    "bags of one size": (lambda w, i: F.embedding_bag(i, w, mode="sum"), whole(7, 3, 4)),
    "their averages": (lambda w, i: F.embedding_bag(i, w), whole(7, 3, 4)),
    "their largest": (lambda w, i: F.embedding_bag(i, w, mode="max"), whole(7, 3, 4)),
    "with shares": (
        lambda w, i, s: F.embedding_bag(i, w, mode="sum", per_sample_weights=s),
        whole(7, 3, 4), t(3, 4, seed=2),
    ),
    "bags that the data say": (
        lambda w, i, o: (F.embedding_bag(i, w, o, mode="sum"), F.embedding_bag(i, w, o)),
        whole(7, 9), torch.tensor([0, 2, 2, 5]),
    ),
    "the largest of each": (
        lambda w, i, o: F.embedding_bag(i, w, o, mode="max"),
        whole(7, 9), torch.tensor([0, 2, 2, 5]),
    ),
    "some of which are left out": (
        lambda w, i, o: [F.embedding_bag(i, w, o, mode=how, padding_idx=2) for how in MODES],
        torch.tensor([2, 1, 2, 2, 5, 0]), torch.tensor([0, 2, 4]),
    ),
    "with an end": (
        lambda w, i, o: F.embedding_bag(i, w, o, mode="sum", include_last_offset=True),
        whole(7, 9), torch.tensor([0, 2, 9]),
    ),
}  # fmt: skip
BAGS = Family({name: (function, t(7, 5), *own) for name, (function, *own) in BAGS.items()})


@pytest.mark.parametrize("name", BAGS.cases)
def test_bags_of_rows_are_those_of_torch(name):
    BAGS.check(name)


def test_an_infinite_row_is_in_its_own_bag_only():
    rows = t(7, 5)
    rows[3, 1], rows[4, 0] = float("inf"), float("nan")
    offsets = torch.tensor([0, 1, 4])
    check(lambda w, i, o: F.embedding_bag(i, w, o, mode="sum"), rows, whole(7, 9), offsets)
