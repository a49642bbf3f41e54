"""Operators that reach kernels in a form of their own: compiled for a CPU, in one network."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from autotune.importers import from_pytorch  # noqa: E402
from autotune.network import compile_network  # noqa: E402

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")


class Families(nn.Module):
    """An output for each family."""

    def forward(self, x, n, q):
        mask = torch.ones(4, 4, dtype=torch.bool).tril()
        return (
            F.pad(x, (1, 2), value=float("-inf")).amax(-1),
            x.gather(1, n % 4),
            x[:, n[0, 0] % 4 - 2],
            torch.where((x > 0) & (x < 1), x, -x),
            (x > 0).any(1),
            x.cumsum(1).argmax(2),
            F.interpolate(x[:, :, None], scale_factor=2, mode="bilinear").sum(2),
            F.adaptive_avg_pool1d(x, 4),
            torch.roll(x, 1, 2) + x.flip(1),
            F.scaled_dot_product_attention(q, q, q, attn_mask=mask | (q[0, 0] > 1)),
            (n // 3).double().float() + torch.remainder(x[:, :4, :6], 0.7).sum(),
            torch.slice_scatter(x, x[:, :2] * 2, 1, 1, 3),
            F.softplus(x) + F.elu(x) + F.mish(x),
            x.var((1, 2)),
            x.cummax(1)[1] + torch.atan2(x, q[0, :, :, :1]).cummin(2)[0],
            torch.fft.irfft(torch.fft.rfft(x) * (1 + 2j), n=6),
            F.conv_transpose1d(x, torch.ones(4, 2, 3), stride=2),
            F.max_pool2d(x, 3, 2, 1, return_indices=True)[1] + torch.lgamma(x[:, ::2, ::2]),
            torch.signbit(torch.copysign(x.sqrt(), -x)),
        )


def test_operators_of_every_family_run_compiled():
    torch.manual_seed(0)
    x, q = torch.randn(2, 4, 6), torch.randn(1, 2, 4, 4)
    model, places = Families().eval(), torch.randint(0, 6, (2, 4, 6))
    with torch.no_grad():
        wanted = model(x, places, q)
    instance = compile_network(from_pytorch(model, (x, places, q)).graph, "c").instance()
    found = instance(x.numpy(), places.numpy(), q.numpy())
    for number, (got, want) in enumerate(zip(found, wanted, strict=True)):
        np.testing.assert_allclose(
            got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5, err_msg=str(number)
        )
