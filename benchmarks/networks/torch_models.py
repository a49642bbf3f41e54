"""Models of PyTorch as their users write them, of PyTorch alone."""

from __future__ import annotations

from typing import Any


def encoder(torch: Any) -> tuple[Any, Any]:
    """Return six layers of `nn.TransformerEncoder` in its default form, and 128 rows for it.

    PyTorch runs each of them as one operator where no gradient is asked.
    """
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    return model, torch.randn(1, 128, 512)


def rotary(torch: Any) -> tuple[Any, Any]:
    """Return four blocks with gated layers, whose positions turn complex numbers, and tokens."""
    nn, f = torch.nn, torch.nn.functional
    width, heads, inner, rows, words = 1024, 16, 2816, 128, 32000
    size = width // heads

    def turned(x: Any, turns: Any) -> Any:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns[:, None]).flatten(3).type_as(x)

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        """Attention and gated layers behind norms."""

        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(width, 3 * width, False), nn.Linear(width, width, False)
            self.up, self.gate = nn.Linear(width, inner, False), nn.Linear(width, inner, False)
            self.down = nn.Linear(inner, width, False)
            self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)

        def forward(self, x: Any, turns: Any) -> Any:
            batch, count, _ = x.shape
            q, k, v = self.qkv(self.first(x)).view(batch, count, 3, heads, size).unbind(2)
            q, k, v = (each.transpose(1, 2) for each in (turned(q, turns), turned(k, turns), v))
            seen = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(batch, count, width))
            rows = self.second(x)
            return x + self.down(f.silu(self.gate(rows)) * self.up(rows))

    class Decoder(nn.Module):  # type: ignore[misc, name-defined]
        """Words, blocks, and words again."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.norm = nn.Embedding(words, width), nn.RMSNorm(width)
            self.blocks = nn.ModuleList(Block() for _ in range(4))
            self.last = nn.Linear(width, words, False)

        def forward(self, tokens: Any) -> Any:
            device = tokens.device
            rates = 10000.0 ** (-torch.arange(0, size, 2, device=device) / size)
            angles = torch.outer(torch.arange(tokens.shape[1], device=device), rates)
            turns = torch.polar(torch.ones_like(angles), angles)
            x = self.words(tokens)
            for block in self.blocks:
                x = block(x, turns)
            return self.last(self.norm(x))

    return Decoder(), torch.randint(0, words, (1, rows))
