"""The source templates, registered under their task names.

Each kernel family is a module with the same four functions - `candidates`, `violation`,
`default_choice`, `kernel` - over a shape and a choice of knobs; here they are registered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any, Protocol, TypeVar, cast

from autotune import SourceKernel, Target, get_config
from autotune.errors import TemplateError
from autotune.task import ConfigSpace, OtherOptionEntity

from .alternatives import Alternatives
from .arguments import template
from .convolutions import conv2d_cpu, conv2d_float
from .convolutions.conv2d_shape import OWNER, Conv2d
from .convolutions.window_shape import four, two
from .epilogue import Epilogue
from .products import (
    few_rows_half,
    gemm_batched_cpu,
    gemm_cpu,
    gemm_few_across,
    gemm_float,
    gemm_half,
    gemm_int8,
    gemm_mma,
    gemm_padded,
    gemm_skinny_int8,
    gemm_small_k,
    gemm_tf32,
    gemm_transposed,
    matvec_cuda,
)
from .products import (
    gemm_packed_cpu as gemm_packed_cpu_family,
)
from .products.gemm_packed_cpu import PackedGemm
from .products.gemm_shape import HALVES, Gemm, Product
from .rows import columns_cuda, rows_cpu, rows_cuda, rows_staged, scan_staged, split_rows
from .rows.columns_cuda import Columns
from .rows.rows_shape import Rows
from .rows.scan_cuda import Scan
from .rows.split_rows import SplitRows
from .space_notes import describe_families, read_older_records

Extents = int | Sequence[int]


class Shape(Protocol):
    """The interface of a shape to the tuner."""

    @property
    def flop(self) -> int:
        """Operations of one run."""

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""


S = TypeVar("S", bound=Shape, contravariant=True)


class Family(Protocol[S]):
    """A module of kernels over one kind of shape."""

    def candidates(self, shape: S) -> dict[str, list[int]]:
        """Return the values each knob may take."""

    def violation(self, shape: S, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""

    def default_choice(self, shape: S, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""

    def kernel(self, shape: S, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernel of a choice."""


@lru_cache(maxsize=1024)
def _default_choice(family: Any, shape: Any, target: Target) -> Mapping[str, int]:
    """Return the choice for a shape that was never tuned; finding it may take half a second."""
    chosen: dict[str, int] = family.default_choice(shape, target)
    return chosen


def tunable(family: Family[S], shape: S, default_target: str) -> SourceKernel:
    """Declare the knobs of a family for a shape, and return the kernel now chosen."""
    target = Target.current() or Target(default_target)
    options = family.candidates(shape)
    cfg = get_config()
    # What was chosen before a knob was added has the value that all kernels had then.
    is_chosen = not cfg.is_fallback and any(name in cfg for name in options)
    added: dict[str, int] = getattr(family, "ADDED", {}) if is_chosen else {}
    before = {name: value for name, value in added.items() if name not in cfg}
    options = {name: values for name, values in options.items() if name not in before}
    if cfg.is_fallback:
        alone: Any = getattr(shape, "alone", shape)
        for name, value in _default_choice(cast(Any, family), alone, target).items():
            cfg[name] = OtherOptionEntity(value)
    for name, values in options.items():
        cfg.define_knob(name, values)
    if isinstance(cast(Any, cfg), ConfigSpace):
        read_older_records(cfg, getattr(family, "ADDED", {}), options)
        if hasattr(family, "suggestions"):
            describe_families(cfg, family, getattr(shape, "alone", shape), target)

    def chosen(entities: Mapping[str, Any]) -> dict[str, int]:
        return before | {name: entities[name].val for name in options}

    cfg.multi_filter(lambda entities: not family.violation(shape, chosen(entities), target))
    cfg.add_flop(shape.flop)
    cfg.add_bytes(shape.bytes)
    if shape.bytes >= 2**63:
        raise TemplateError(f"no kernels index arrays of {shape.bytes:.3g} bytes: {shape}")
    return family.kernel(shape, chosen(cast(Any, cfg)))


def tunable_rows(family: ModuleType, shape: Rows | Scan) -> SourceKernel:
    """Return the kernel of rows now chosen.

    Few long rows may be split among blocks, and many short ones pass through shared memory.
    """
    staged: Any = rows_staged if isinstance(shape, Rows) else scan_staged
    if staged.offered(shape) and not staged.chosen_before(get_config()):
        return tunable(staged, shape, "cuda")
    if split_rows.offered(shape, get_config()):
        return tunable(SplitRows(family, always=isinstance(shape, Scan)), shape, "cuda")
    return tunable(cast(Any, family), shape, "cuda")


@template("conv2d_nchw.cuda")
def conv2d_nchw_cuda(
    n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int,
    stride: Extents = 1, padding: Extents = 0, bias: bool = False, relu: bool = False,
    residual: bool = False, affine: bool = False, dilation: Extents = 1, groups: int = 1,
    activation: str = "none", kept: bool = False, shift: bool = False, fma: bool = False,
) -> SourceKernel:  # fmt: skip
    """Convolve ``n`` images of ``ci`` channels, h x w, by ``co`` filters kh x kw, float32 NCHW.

    The function takes data, weight, bias (per channel, if asked for) and out. Before out it takes,
    if asked for, a residual, which is added, and a scale and a shift (per channel), which are
    applied before the ReLU.

    Args:
        padding: an int, a pair (y, x), or (top, left, bottom, right).
        groups: of channels; the filters of a group, (co, ci / groups, kh, kw), read only its
            inputs.
        activation: instead of the ReLU: ``"relu6"``, ``"silu"``, ``"gelu"`` or
            ``"gelu_tanh"``.
        kept: whether the sum before scale and shift is written too, to an array before out.
        shift: whether only a shift follows, without a scale.
        fma: whether to use ``fmaf`` only; on sm_90 layers that are faster so run on tensor cores,
            with the accuracy of float32 (`conv2d_bf16x3`).
    """
    shape = Conv2d(
        n, h, w, co, ci, kh, kw, two(OWNER, stride), four(OWNER, padding), bias, relu, residual,
        affine, two(OWNER, dilation), groups, activation, kept, shift,
    )  # fmt: skip
    target = Target.current() or Target("cuda")
    return tunable(conv2d_float.family_of(shape, target, get_config(), fma), shape, "cuda")


@template("conv2d_nchw.cpu")
def conv2d_nchw_cpu(
    n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int,
    stride: Extents = 1, padding: Extents = 0, bias: bool = False, relu: bool = False,
    residual: bool = False, affine: bool = False, kept: bool = False,
    shift: bool = False, dilation: Extents = 1, groups: int = 1, activation: str = "none",
) -> SourceKernel:  # fmt: skip
    """Convolve as ``conv2d_nchw.cuda`` does, on a CPU."""
    shape = Conv2d(
        n, h, w, co, ci, kh, kw, two(OWNER, stride), four(OWNER, padding), bias, relu, residual,
        affine, two(OWNER, dilation), groups, activation, kept, shift,
    )  # fmt: skip
    return tunable(conv2d_cpu, shape, "llvm")


@template("gemm_nn.cuda")
def gemm_nn_cuda(
    m: int, n: int, k: int, dtype: str = "float32", fma: bool = False
) -> SourceKernel:
    """Multiply matrices: c[m, n] = a[m, k] b[k, n], all row-major and of one dtype.

    ``"float16"`` and ``"bfloat16"`` run on tensor cores (sm_80 and later) with sums in float32,
    on sm_90, for n and k that 8 divides, also by ``wgmma``; where n or k is odd, on copies with
    rows of a multiple of 8. The other dtype is ``"float32"``; on sm_90 large products of it run on
    tensor cores too, as exactly as by ``fmaf`` (`gemm_bf16x3`), unless ``fma`` asks for that.
    """
    return product("gemm_nn.cuda", Gemm(m, n, k, dtype), (*HALVES, "float32"), fma)


@template("gemm.cuda")
def gemm_cuda_any(
    m: int, n: int, k: int, dtype: str = "float32", batch: int = 1,
    transpose_a: bool = False, transpose_b: bool = False, bias: bool = False,
    activation: str = "none", residual: bool = False, affine: bool = False, alpha: float = 1.0,
    shared: str = "", fma: bool = False, b_row: int = 0,
) -> SourceKernel:  # fmt: skip
    """Multiply ``batch`` pairs of matrices, c[m, n] = a[m, k] b[k, n], with an epilogue.

    The function takes a, b, those of bias, residual, scale and shift that are asked for, and c,
    which becomes ``activation((sum * alpha + bias + residual) * scale + shift)``; bias, scale and
    shift have one number a column, the residual is as large as c. With a batch of more than one,
    arrays have it as their first axis.

    Args:
        dtype: of all arrays: ``"float32"``, ``"float16"`` and ``"bfloat16"``, which run as in
            ``gemm_nn.cuda`` (halves there with rows in memory that 8 divides); ``"tf32"``, of
            float32 arrays that tensor cores (sm_80 and later) multiply after rounding to 11 bits
            (or cutting, by ``wgmma``; on sm_90 rows of no multiple of 16 bytes may be multiplied
            more exactly, as float32, or as sums of two bfloat16, with errors up to 2^-16 of each
            product, also of integers of 9 to 11 bits, of which TF32 has none);
            ``"int8"``, with c int32, of which nothing follows; on sm_90 by ``wgmma``, where
            ``transpose_b`` and a k that 16 divides spare copies.
        transpose_a, transpose_b: whether a is stored as [k, m], and b as [n, k].
        activation: ``"none"``, ``"relu"``, ``"relu6"``, ``"silu"``, ``"gelu"`` or
            ``"gelu_tanh"``.
        shared: ``"a"`` or ``"b"``: one matrix, without the batch's axis, serves the whole batch.
        fma: whether float32 is multiplied by ``fmaf`` only.
        b_row: elements of a row of a b of 16-bit floats that is stored as [n, k], where its rows
            are padded with zeros to a multiple of 8: only rows of a are copied then.
    """
    epilogue = Epilogue(bias, residual, affine, activation, alpha)
    shape = Gemm(m, n, k, dtype, batch, transpose_a, transpose_b, shared, epilogue, b_row=b_row)
    return product("gemm.cuda", shape, (*gemm_mma.DTYPES, "float32"), fma)


@template("matvec.cuda")
def matvec_cuda_rows(
    n: int, k: int, m: int = 1, dtype: str = "float32", bias: bool = False,
    activation: str = "none", residual: bool = False, affine: bool = False, alpha: float = 1.0,
) -> SourceKernel:  # fmt: skip
    """Multiply few rows, c[m, n] = a[m, k] b[k, n] with b stored as [n, k], and an epilogue.

    The function takes what that of ``gemm.cuda`` with ``transpose_b`` does.

    Args:
        m: rows, up to 16; 1 is a dense layer of one image, or a step of a decoder.
        dtype: of all arrays: ``"float32"``, ``"float16"`` or ``"bfloat16"``; sums are in float32.
    """
    if dtype not in ("float32", *HALVES):
        raise TemplateError(
            f"matvec.cuda: dtype must be float32, float16 or bfloat16, got {dtype!r}"
        )
    if not 1 <= m <= matvec_cuda.MOST_ROWS:
        raise TemplateError(f"matvec.cuda: m must be 1 to {matvec_cuda.MOST_ROWS}, got {m}")
    epilogue = Epilogue(bias, residual, affine, activation, alpha)
    return tunable(matvec_cuda, Gemm(m, n, k, dtype, transpose_b=True, epilogue=epilogue), "cuda")


def product(name: str, shape: Gemm, dtypes: Sequence[str], fma: bool = False) -> SourceKernel:
    """Return the kernel of a product by the family that its type and rows ask for."""
    return tunable(*family_of_product(name, shape, dtypes, fma), "cuda")


def family_of_product(
    name: str, shape: Gemm, dtypes: Sequence[str], fma: bool = False
) -> tuple[Any, Any]:
    """Return the family that the type and rows of a product ask for, and the shape it takes."""
    if shape.dtype not in dtypes:
        raise TemplateError(f"{name}: dtype must be {', '.join(dtypes)}, got {shape.dtype!r}")
    target = Target.current() or Target("cuda")
    as_float32 = gemm_tf32.runs_as_float32(shape, target, get_config())
    if as_float32 or shape.dtype == "float32":
        family = gemm_float.family_of(shape, target, get_config(), fma)
        return family, gemm_float.taken(family, shape)
    if few := few_rows_half.family_of(shape, target, get_config()):
        return few, shape
    if shape.dtype in HALVES and _on_copies(shape, target):
        return _odd_rows(shape, target), shape
    old = gemm_half.chosen_before(get_config())
    gains = not old and shape.dtype == "int8" and gemm_int8.gains(shape, target)
    if gemm_int8.streams(shape, target, get_config()):
        return gemm_skinny_int8, shape
    if shape.dtype == "int8" and gemm_int8.streams_copies(shape, get_config()):
        return gemm_int8.AlongK(cast(Any, gemm_skinny_int8)), shape
    if shape.dtype == "int8" and (gemm_int8.is_needed(shape) or gains):
        copied = gemm_int8.AlongK(tensor_core_family(gemm_int8.along_k(shape)))
        return copied, shape
    if not old and gemm_transposed.is_needed(shape, target):
        return gemm_transposed, shape
    if not old and gemm_few_across.offered(shape, target):
        return _few_across(shape, target), shape
    return tensor_core_family(shape), shape


def _few_across(shape: Gemm, target: Target) -> Family[Any]:
    """Return the kernels of few rows of an a [k, m] of 16-bit floats: as it is, or on a copy."""
    untuned = int(gemm_few_across.suits(shape, target))
    either = Alternatives((cast(Any, gemm_half), cast(Any, gemm_few_across)), untuned)
    return either.chosen_alone(shape, get_config()) or either


def _odd_rows(shape: Gemm, target: Target) -> Family[Any]:
    """Return the kernels of 16-bit floats with unaligned rows: on copies, or short sums, too."""
    copied = gemm_padded.Padded(tensor_core_family(gemm_padded.padded(shape)))
    if shape.b_row or not gemm_small_k.suits_odd_rows(shape):
        return copied
    untuned = int(gemm_small_k.beats_copies(shape, target))
    either = Alternatives((copied, cast(Any, gemm_small_k)), untuned)
    return either.chosen_alone(shape, get_config()) or either


def _on_copies(shape: Gemm, target: Target) -> bool:
    """Return whether a product of 16-bit floats runs on padded copies, aligned for vectors."""
    old = gemm_half.chosen_before(get_config())
    needed = gemm_padded.is_needed(shape) or shape.b_row > 0
    return needed or (not old and gemm_padded.gains(shape, target))


def tensor_core_family(shape: Product) -> Family[Any]:
    """Return the kernels of products on tensor cores that a target and a configuration ask for."""
    if gemm_half.chosen_before(get_config()):
        return gemm_mma
    offered = gemm_half.offered(shape, Target.current() or Target("cuda"))
    return gemm_half if offered else gemm_mma


@template("gemm_nn.cpu")
def gemm_nn_cpu(m: int, n: int, k: int, dtype: str = "float32") -> SourceKernel:
    """Multiply float32 matrices as ``gemm_nn.cuda`` does, on a CPU."""
    if dtype != "float32":
        raise TemplateError(f"gemm_nn.cpu: dtype must be float32, got {dtype!r}")
    return tunable(gemm_cpu, Gemm(m, n, k, dtype), "llvm")


@template("gemm.cpu")
def gemm_cpu_any(
    m: int, n: int, k: int, batch: int = 1, transpose_a: bool = False, transpose_b: bool = False,
    shared: str = "",
) -> SourceKernel:  # fmt: skip
    """Multiply ``batch`` pairs of float32 matrices as ``gemm.cuda`` does, on a CPU.

    The function takes a, b and c; with a batch of more than one, arrays have it as their first
    axis.

    Args:
        transpose_a: whether a is stored as (k, m).
        transpose_b: whether b is stored as (n, k).
        shared: ``"a"`` or ``"b"``, where one matrix serves the whole batch.
    """
    shape = Gemm(m, n, k, "float32", batch, transpose_a, transpose_b, shared)
    return tunable(gemm_batched_cpu, shape, "llvm")


@template("gemm_packed.cpu")
def gemm_packed_cpu(
    m: int, n: int, k: int, bias: bool = False, relu: bool = False, residual: bool = False,
    columns: int = 16,
) -> SourceKernel:  # fmt: skip
    """Multiply float32 rows by weights that are packed ahead of time, on a CPU.

    The function takes a (m, k), weights (blocks, k, columns), the last block of the n columns
    padded with zeros; those of bias (one number a column) and residual (m, n) that are asked for;
    and c, which becomes ``a b + bias + residual``, or its ReLU.

    Args:
        columns: of a block: 16, 8 or 4, as many as a vector has.
    """
    epilogue = Epilogue(bias, residual, False, "relu" if relu else "none")
    return tunable(
        gemm_packed_cpu_family, PackedGemm(m, n, k, epilogue=epilogue, columns=columns), "llvm"
    )


@template("softmax.cuda")
def softmax_rows_cuda(
    rows: int, columns: int, dtype: str = "float32", inner: int = 1
) -> SourceKernel:
    """Softmax of each row of a matrix.

    Args:
        inner: with more than 1, of an array (rows, columns, inner) along its middle axis.
    """
    return softmax_along("softmax", rows, columns, dtype, inner)


def softmax_along(operation: str, rows: int, columns: int, dtype: str, inner: int) -> SourceKernel:
    """Return the kernel of a softmax now chosen, of rows or along a middle axis."""
    if inner == 1:
        return tunable_rows(rows_cuda, Rows(operation, rows, columns, dtype))
    return tunable(columns_cuda, Columns(operation, rows, columns, inner, dtype), "cuda")


@template("softmax.cpu")
def softmax_rows_cpu(rows: int, columns: int) -> SourceKernel:
    """Softmax of each row of a float32 matrix, on a CPU."""
    return tunable(rows_cpu, Rows("softmax", rows, columns), "llvm")
