"""Templates under the names of TVM's for tensor cores and for bytes.

The kernels and their knobs are ours, as in `operators`. Operands of float32 keep their precision:
they are not rounded to float16.
"""

from __future__ import annotations

from autotune import te, topi
from autotune.errors import TemplateError
from autotune.task import register_operator

from . import operators, source, te_common, te_conv2d, te_sums
from .operators import Extents, Made, Moves, moves_of, plain

# Of a hand-written product of bytes; of other dtypes it is that of the operands.
_SUM_OF_BYTES = "int32"


def _own(data: te.Tensor, out_dtype: str | None) -> bool:
    """Return whether results are of the dtype that the hand-written product of the data has."""
    return out_dtype in (None, _SUM_OF_BYTES if data.dtype == "int8" else data.dtype)


def _dense(name: str) -> None:
    """Enter the template of a dense layer."""

    @register_operator(name)
    def dense(
        data: te.Tensor, weight: te.Tensor, bias: None = None, out_dtype: str | None = None
    ) -> Made:
        """Apply a dense layer: data [batch, in] by the transpose of weight [out, in]."""
        if not _own(data, out_dtype):
            return operators.dense_small_batch_gpu(data, weight, bias, out_dtype)
        (m, k), (n, _) = map(topi.utils.get_const_tuple, (data.shape, weight.shape))
        made: Made = plain(source.gemm_cuda_any)(m, n, k, data.dtype, transpose_b=True)
        return made


def _batch_matmul(name: str) -> None:
    """Enter the template of products of batches of matrices."""

    @register_operator(name)
    def batch_matmul(
        x: te.Tensor, y: te.Tensor, out_shape: Extents = None, out_dtype: str | None = None,
        transpose_a: bool = False, transpose_b: bool = True,
    ) -> Made:  # fmt: skip
        """Multiply batches of matrices, [batch, m, k] by [batch, n, k] if ``transpose_b``."""
        if _own(x, out_dtype):
            return operators.batch_matmul_cuda(x, y, out_shape, None, transpose_a, transpose_b)

        def total(dtype: str) -> te.Tensor:
            made: te.Tensor = topi.nn.batch_matmul(x, y, None, dtype, transpose_a, transpose_b)
            return made

        made = te_common.rounded_sum(total, str(out_dtype))
        axes = dict(zip(("tile_b", "tile_y", "tile_x"), made.op.axis, strict=True))
        return te_sums.on_gpu((x, y), made, axes)


for _name in ("dense_tensorcore.cuda", "dense_int8.cuda"):
    _dense(_name)
for _name in ("batch_matmul_tensorcore.cuda", "batch_matmul_int8.cuda"):
    _batch_matmul(_name)
register_operator("conv2d_nhwc_tensorcore.cuda")(operators.conv2d_nhwc_gpu)


def _conv2d_int8(name: str, on_gpu: bool) -> None:
    """Enter the template of a convolution of bytes, whose images and filters are not in blocks."""

    @register_operator(name)
    def conv2d(
        data: te.Tensor, kernel: te.Tensor, strides: Moves, padding: Moves, dilation: Moves,
        layout: str = "NCHW", *out: str,
    ) -> Made:  # fmt: skip
        """Convolve images NCHW by filters OIHW; results are NCHW, of the last argument's dtype."""
        if len(data.shape) != 4:
            raise TemplateError(
                f"{name}: data must be images NCHW, got {data!r} in {layout}; channels need no "
                "blocks here"
            )
        moves = moves_of(topi.utils.get_const_tuple(kernel.shape)[-2:], strides, padding, dilation)
        dtype = out[-1] if out else _SUM_OF_BYTES
        conv = topi.nn.conv2d_nchw(data, kernel, *moves, out_dtype=dtype)
        if on_gpu:
            return te_conv2d.on_gpu(data, kernel, conv, te_conv2d.CUDA_SLICES)
        return te_conv2d.on_cpu(data, kernel, conv)


_conv2d_int8("conv2d_NCHWc_int8.cuda", True)
_conv2d_int8("conv2d_NCHWc_int8.x86", False)
