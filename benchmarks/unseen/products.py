"""Products of matrices for `unseen`, of any operands, types and what follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks.rivals import Named, by_cublaslt, set_up
from benchmarks.unseen.layer import PLAIN, After, Arrays, Layer, Way


@dataclass(frozen=True)
class Product:
    """Products of matrices with what follows."""

    m: int
    n: int
    k: int
    dtype: str = "float32"
    batch: int = 1
    transpose_a: bool = False
    transpose_b: bool = False
    after: After = PLAIN
    shared: str = ""

    def operands(self, arrays: Arrays) -> tuple[Any, Any]:
        """Return both operands, turned as they are multiplied."""
        a, b = arrays[:2]
        return a.mT if self.transpose_a else a, b.mT if self.transpose_b else b

    def compute(self, arrays: Arrays) -> Any:
        """Return the result."""
        import torch

        return self.after(torch.matmul(*self.operands(arrays)), arrays[2:], (-1,))

    def rivals(self, arrays: Arrays) -> Named:
        """Yield cuBLAS, with bias and activation within the product where PyTorch can."""
        import torch

        set_up(torch, tf32=self.dtype == "tf32")
        a, b = self.operands(arrays)
        rest, after = arrays[2:], self.after
        if self.dtype == "int8":
            yield "cuBLAS int8", lambda: torch._int_mm(a, b)
            halves = a.half(), b.half()
            yield "cuBLAS float16", lambda: torch.matmul(*halves)
            return
        plain = partial(self._plain, a, b, rest)
        yield "PyTorch", plain
        yield "PyTorch, cuBLASLt", by_cublaslt(plain)
        if after.alpha != 1 and a.dim() == b.dim() == 3:
            scaled = partial(torch.baddbmm, a.new_empty(()), a, b, beta=0, alpha=after.alpha)
            others = replace(after, alpha=1.0)
            yield "baddbmm", lambda: others(scaled(), rest, (-1,))
        if not after.bias or a.dim() != 2 or after.alpha != 1:
            return
        others = After(False, after.residual, after.affine, after.activation)
        yield "addmm", lambda: others(torch.addmm(rest[0], a, b), rest[1:], (-1,))
        if after in (After(True, activation="relu"), After(True, activation="gelu")):
            gelu = after.activation == "gelu"  # by tanh, which ours is not
            yield "cuBLASLt", lambda: torch._addmm_activation(rest[0], a, b, use_gelu=gelu)

    def _plain(self, a: Any, b: Any, rest: Arrays) -> Any:
        import torch

        return self.after(torch.matmul(a, b), rest, (-1,))

    def layer(self) -> Layer:
        """Return the layer with the templates that compute it."""
        after = self.after
        rest = (after.bias, after.activation, after.residual, after.affine, after.alpha)
        args = (
            self.m, self.n, self.k, self.dtype, self.batch, self.transpose_a, self.transpose_b,
            *rest, self.shared,
        )  # fmt: skip
        ways = [Way("gemm.cuda", args)]
        most = {"float32": 8, "float16": 4, "bfloat16": 4}.get(self.dtype, 0)
        if self.m <= most and self.transpose_b and self.batch == 1 and not self.transpose_a:
            ways.insert(0, Way("matvec.cuda", (self.n, self.k, self.m, self.dtype, *rest)))
        kind = f"product {self.dtype}"
        linear = replace(self, after=self.after.linear)
        tf32 = self.dtype == "tf32"
        return Layer(kind, tuple(ways), self.compute, self.rivals, tf32, sums=linear.compute)
