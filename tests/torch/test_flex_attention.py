"""`flex_attention` is compiled with the functions that it is given."""

import logging

import pytest

torch = pytest.importorskip("torch")
flex = pytest.importorskip("torch.nn.attention.flex_attention")

import autotune.torch  # noqa: E402
from autotune.importers import from_pytorch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
SLOPES, TABLE = torch.rand(4), torch.randn(2, 24)
DOCUMENT = torch.tensor([0] * 5 + [1] * 7)
SCORES = {
    "nothing": None,
    "slopes": lambda s, b, h, i, j: s + SLOPES[h] * (j - i),
    "a table": lambda s, b, h, i, j: s - TABLE[b][i - j + 12],
    "a bound": lambda s, b, h, i, j: 3 * torch.tanh(s / 3),
    "halves": lambda s, b, h, i, j: torch.where(i - j < 4, s, s * 0.5),
}
MASKS = {
    "all": None,
    "causal": lambda b, h, i, j: i >= j,
    "documents": lambda b, h, i, j: DOCUMENT[i] == DOCUMENT[j],
    "a window of each head": lambda b, h, i, j: (i - j < h + 2) & (i >= j),
    "nothing is seen": lambda b, h, i, j: (i > 3) & (j < 9),
}


def made(score, mask, q, k, v, **more):
    block = mask and flex.create_block_mask(mask, None, 4, 12, 12, device="cpu")

    def attend(q, k, v):
        return flex.flex_attention(q * 2, k, v, score, block, **more)

    torch._dynamo.reset()
    with torch.no_grad():
        want = torch.compile(attend, backend="eager")(q, k, v)
        return torch.compile(attend, backend=autotune.torch.backend)(q, k, v), want


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("score", "mask"),
    [("nothing", "causal"), ("nothing", "nothing is seen"), ("slopes", "documents"),
     ("a table", "all"), ("a bound", "a window of each head"), ("halves", "nothing is seen")],
)  # fmt: skip
def test_scores_and_masks_are_those_of_torch(score, mask, caplog):
    q, k, v = torch.randn(2, 4, 12, 8), torch.randn(2, 2, 12, 8), torch.randn(2, 2, 12, 8)
    with caplog.at_level(logging.WARNING, "autotune"):
        got, want = made(SCORES[score], MASKS[mask], q, k, v, enable_gqa=True, scale=0.4)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    assert not caplog.messages


def test_sums_are_those_of_torch(caplog):
    q, k, v = torch.randn(2, 4, 12, 8), torch.randn(2, 4, 12, 8), torch.randn(2, 4, 12, 8)
    with caplog.at_level(logging.WARNING, "autotune"):
        got, want = made(SCORES["slopes"], MASKS["nothing is seen"], q, k, v, return_lse=True)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    assert not caplog.messages


def test_an_exported_program_is_read_and_left_as_it_was():
    class Model(torch.nn.Module):
        def forward(self, q):
            return flex.flex_attention(q, q, q, SCORES["slopes"])

    q = torch.randn(1, 4, 12, 8)
    program = torch.export.export(Model(), (q,))
    before = str(program.graph)
    (got,) = from_pytorch(program).graph.run(q.numpy())
    torch.testing.assert_close(torch.tensor(got).float(), Model()(q), rtol=1e-5, atol=1e-5)
    assert str(program.graph) == before
    assert "flex_attention" in before
