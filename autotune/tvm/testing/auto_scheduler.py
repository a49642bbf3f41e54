"""TVM's `testing.auto_scheduler`: graphs of computes that its tests of the auto-scheduler share.

Records and tasks know them by the names of these functions.
"""

from typing import Any

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG, State, register_workload
from autotune.te.tensor import Tensor
from autotune.topi.nn import get_pad_tuple, winograd_transform_matrices

__all__ = [
    "conv2d_nchw_bn_relu_auto_scheduler_test",
    "conv2d_winograd_nhwc_auto_scheduler_test",
    "double_matmul_auto_scheduler_test",
    "get_tiled_matmul",
    "invalid_compute_definition",
    "matmul_auto_scheduler_test",
    "matmul_auto_scheduler_test_rename_0",
    "max_pool2d_auto_scheduler_test",
    "min_nm_auto_scheduler_test",
    "parallel_matmul_auto_scheduler_test",
    "softmax_abcd_auto_scheduler_test",
    "softmax_nm_auto_scheduler_test",
    "zero_rank_compute_auto_scheduler_test",
    "zero_rank_reduce_auto_scheduler_test",
]

Tensors = list[Tensor]
# Names axes of constant indices into constant matrices, for the sketch rules.
CONSTANT_INDICES = "auto_scheduler_simplify_const_tensor_indices"


def _square(n: int, *names: str) -> Tensors:
    return [te.placeholder((n, n), name=name) for name in names]


def _product(a: Tensor, b: Tensor, name: str, **more: Any) -> Tensor:
    (rows, length), columns = a.shape, b.shape[1]
    k = te.reduce_axis((0, length), name="k")
    result: Tensor = te.compute(
        (rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name=name, **more
    )
    return result


@register_workload
def matmul_auto_scheduler_test(N: int, M: int, K: int) -> Tensors:
    """Return a product whose right operand may have any layout."""
    a, b = te.placeholder((N, K), name="A"), te.placeholder((K, M), name="B")
    return [a, b, _product(a, b, "C", attrs={"layout_free_placeholders": [b]})]


@register_workload("matmul_auto_scheduler_test_rename_1")
def matmul_auto_scheduler_test_rename_0(N: int, M: int, K: int) -> Tensors:
    """Return a product that is registered under another name than its function's."""
    a, b = te.placeholder((N, K), name="A"), te.placeholder((K, M), name="B")
    return [a, b, _product(a, b, "C")]


@register_workload
def double_matmul_auto_scheduler_test(N: int) -> Tensors:
    """Return two products, one of which is an operand of the other."""
    a, b, c = _square(N, "A", "B", "C")
    return [a, b, c, _product(_product(a, b, "D"), c, "E")]


@register_workload
def parallel_matmul_auto_scheduler_test(N: int) -> Tensors:
    """Return two products that share an operand."""
    a, b, c = _square(N, "A", "B", "C")
    return [a, b, c, _product(a, b, "D"), _product(a, c, "E")]


@register_workload
def conv2d_nchw_bn_relu_auto_scheduler_test(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, strides: int, padding: int,
    dilation: int = 1,
) -> Tensors:  # fmt: skip
    """Return a convolution with bias, normalisation by channels and ReLU."""
    data = te.placeholder((N, CI, H, W), name="Data")
    kernel = te.placeholder((CO, CI, kernel_size, kernel_size), name="Kernel")
    bias, scale, offset = (
        te.placeholder((CO, 1, 1), name=name) for name in ("Bias", "Bn_scale", "Bn_offset")
    )
    conv = topi.nn.conv2d_nchw(data, kernel, strides, padding, dilation)
    shape = conv.shape
    biased = te.compute(shape, lambda n, c, h, w: conv[n, c, h, w] + bias[c, 0, 0], "Bias_add")
    scaled = te.compute(shape, lambda n, c, h, w: biased[n, c, h, w] * scale[c, 0, 0], "Bn_mul")
    moved = te.compute(shape, lambda n, c, h, w: scaled[n, c, h, w] + offset[c, 0, 0], "Bn_add")
    return [data, kernel, bias, offset, scale, topi.nn.relu(moved)]


@register_workload
def max_pool2d_auto_scheduler_test(N: int, H: int, W: int, CI: int, padding: int) -> Tensors:
    """Return the largest of each 2 by 2 elements."""
    data = te.placeholder((N, CI, H, W), name="Data")
    return [data, topi.nn.pool2d(data, [2, 2], [1, 1], [1, 1], [padding] * 4, "max")]


@register_workload
def min_nm_auto_scheduler_test(N: int, M: int) -> Tensors:
    """Return the least element of each row."""
    a = te.placeholder((N, M), name="A")
    return [a, topi.min(a, axis=-1)]


@register_workload
def softmax_nm_auto_scheduler_test(N: int, M: int) -> Tensors:
    """Return a softmax of rows."""
    a = te.placeholder((N, M), name="A")
    return [a, topi.nn.softmax(a, axis=1)]


@register_workload
def softmax_abcd_auto_scheduler_test(a: int, b: int, c: int, d: int) -> Tensors:
    """Return a softmax along the last of four dimensions."""
    x = te.placeholder((a, b, c, d), name="A")
    return [x, topi.nn.softmax(x, axis=-1)]


@register_workload
def invalid_compute_definition() -> Tensors:
    """Return what no graph is made of: two reduction axes were given one name."""
    a = te.placeholder((10, 10), name="A")
    first, other = te.reduce_axis((0, 2), name="r1"), te.reduce_axis((0, 2), name="r1")
    b = te.compute((10,), lambda i: te.sum(a[i, first + other], axis=[first, other]), name="B")
    return [a, b]


@register_workload
def zero_rank_reduce_auto_scheduler_test(N: int) -> Tensors:
    """Return the sum of a vector, a number."""
    a, k = te.placeholder((N,), name="A"), te.reduce_axis((0, N), name="k")
    return [a, te.compute((), lambda: te.sum(a[k], k), name="B")]


@register_workload
def zero_rank_compute_auto_scheduler_test(N: int) -> Tensors:
    """Return the first number of a vector."""
    a = te.placeholder((N,), name="A")
    return [a, te.compute((), lambda: a[0], name="B")]


@register_workload
def conv2d_winograd_nhwc_auto_scheduler_test(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int = 3, stride: int = 1,
    padding: int = 0, dilation: int = 1,
) -> Tensors:  # fmt: skip
    """Return Winograd's convolution, with weights that are transformed already."""
    if (stride, dilation) != (1, 1):
        raise ValueError("Winograd's convolution has stride and dilation 1")
    m, alpha = 4, 4 + kernel_size - 1
    top, left, _, _ = get_pad_tuple(padding, (kernel_size, kernel_size))
    rows, columns = H + 2 * top - kernel_size + 1, W + 2 * left - kernel_size + 1
    high, wide = -(-rows // m), -(-columns // m)
    tiles = N * high * wide
    inputs = te.placeholder((N, H, W, CI), name="inputs")
    sides = (0, top, left, 0)
    padded = topi.nn.pad(inputs, sides, sides, name="data_pad")
    a, b, _ = winograd_transform_matrices(m, kernel_size, "float32")
    weight = te.placeholder((alpha, alpha, CI, CO), name="weight")
    div, mod = te.indexdiv, te.indexmod
    tile = te.compute(
        (alpha, alpha, tiles, CI),
        lambda eps, nu, p, ci: padded[
            div(p, high * wide), mod(div(p, wide), high) * m + eps, mod(p, wide) * m + nu, ci
        ],
        name="input_tile",
    )
    r_a, r_b = te.reduce_axis((0, alpha), "r_a"), te.reduce_axis((0, alpha), "r_b")
    pack = te.compute(
        (alpha, alpha, tiles, CI),
        lambda eps, nu, p, ci: te.sum(
            tile[r_a, r_b, p, ci] * b[r_a, eps] * b[r_b, nu], axis=[r_a, r_b]
        ),
        name="data_pack",
        attrs={CONSTANT_INDICES: ["eps", "nu", "r_a", "r_b"]},
    )
    k = te.reduce_axis((0, CI), name="ci")
    bgemm = te.compute(
        (alpha, alpha, tiles, CO),
        lambda eps, nu, p, co: te.sum(pack[eps, nu, p, k] * weight[eps, nu, k, co], axis=[k]),
        name="bgemm",
    )
    r_a, r_b = te.reduce_axis((0, alpha), "r_a"), te.reduce_axis((0, alpha), "r_b")
    inverse = te.compute(
        (m, m, tiles, CO),
        lambda vh, vw, p, co: te.sum(
            bgemm[r_a, r_b, p, co] * a[r_a, vh] * a[r_b, vw], axis=[r_a, r_b]
        ),
        name="inverse",
        attrs={CONSTANT_INDICES: ["vh", "vw", "r_a", "r_b"]},
    )
    output = te.compute(
        (N, rows, columns, CO),
        lambda n, h, w, co: inverse[
            mod(h, m), mod(w, m), n * high * wide + div(h, m) * wide + div(w, m), co
        ],
        name="conv2d_winograd",
    )
    return [inputs, weight, output]


def get_tiled_matmul() -> tuple[ComputeDAG, State]:
    """Return the graph of a product of 512 by 512, and a state of it with tiles of four levels."""
    tensors = matmul_auto_scheduler_test(512, 512, 512)
    dag, c = ComputeDAG(tensors), tensors[-1]
    state = dag.get_init_state()
    rows = state.split(c, state[c].iters[0], [4, 8, 8])
    columns = state.split(c, state[c].iters[4], [8, 4, 4])
    order = [loop for pair in zip(rows, columns, strict=True) for loop in pair]
    state.reorder(c, [*order, state[c].iters[8]])
    return dag, state
