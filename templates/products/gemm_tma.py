"""Warp-specialised matrix multiplication by ``wgmma``, with operands loaded by TMA.

In `gemm_wgmma` 128 threads of a block copy 16 bytes at a time (``cp.async``). Here one producer
thread issues TMA loads of boxes, which arrive swizzled for ``wgmma``, and an mbarrier counts their
bytes. What follows from it:

- A tensor map describes a matrix to TMA; `tensor_map` says how a map that is a constant of the
  program serves plain pointers. Rows of a and b must be aligned to 16 bytes.
- Where a shape has many tiles, the kernel can be persistent: the loads of the next tile start
  during the epilogue. With ping-pong one consumer warpgroup runs its epilogue
  while the other multiplies: with short sums, prologue and epilogue take half of the time.
- Of NHWC images TMA loads the filter's inputs of a tile's pixels in im2col mode
  (`implicit_gemm_tma`).
- As TF32, ``wgmma`` reads the right operand K-major only, but the left one from registers too,
  where threads load either layout. So b may be stored as [k, n] where operands are swapped, and a
  as [k, m] where they are not.
- Blocks of a cluster with tiles of the same columns can load a part of b each for all (multicast),
  and those with the same rows a part of a: two, four or eight blocks, in one row or in several.
- Where a shape has too few tiles to fill the device, ``split`` blocks take a range of K each
  (split-K): a second kernel reduces their partial sums, or they are in a cluster, and each reduces
  its share of the tile's columns through distributed shared memory. Blocks of several tiles in
  such a cluster multicast too.
- Results of 16 bits are stored by TMA too, in whole cache lines.
- Tiles have any multiple of 8 columns, so that as many of them as there are multiprocessors cover
  a result of any size. Boxes of MN-major operands are best whole cache lines: then the
  operands are swapped (swap AB), and rows of tiles are columns of c, a multiple of 64.

CUTLASS has kernels of this kind under the names "persistent", "cooperative" and "ping-pong" (its
documentation, "Efficient GEMM in CUDA", of warp-specialized kernels for Hopper), and "swap AB".
The knobs are those of `gemm_wgmma`, and mean the same for the warpgroups of a tile. ``wgmma``, the
knob by which `gemm_half` selects a family, selects the form of the kernel: see `Form`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from autotune import SourceKernel, Target, call, workspace
from autotune.errors import TemplateError
from autotune.kernel import KernelCall

from .. import common, tensor_map
from ..convolutions import implicit_gemm_tma
from ..convolutions.conv2d_nhwc import Conv2dNhwc
from ..convolutions.image_planes import plane_of
from . import gemm_wgmma
from .gemm_shape import HALVES, Product, first_names, result_name
from .gemm_tma_estimate import estimate as estimate
from .gemm_tma_form import FORMS as FORMS
from .gemm_tma_form import Form as Form
from .gemm_tma_rules import SUM_THREADS, faults
from .gemm_tma_rules import offered as offered
from .gemm_tma_rules import refusal as refusal
from .gemm_tma_rules import violation as violation
from .gemm_tma_space import candidates as candidates
from .gemm_tma_tiling import TmaTiling as TmaTiling
from .gemm_tma_tiling import starts_with_residual
from .gemm_tma_untuned import beats_mma_as_tf32 as beats_mma_as_tf32
from .gemm_tma_untuned import default_choice as default_choice
from .gemm_tma_untuned import suits_integers as suits_integers
from .gemm_tma_untuned import suits_strips as suits_strips
from .gemm_tma_untuned import wins as wins
from .gemm_wgmma import ARCH

HOPPER = Target(f"cuda -arch={ARCH}")
# The kernels, and what they are made of.
TEXTS = (
    "elements.h", "epilogue.h", "operands.h", "mma.h", "pairs.h", "float_pairs.h", "barriers.h",
    "dependent_launch.h", "wgmma.h", "exp2.h", "activations.h", "tma.h", "gemm_tma.h",
    "init_accumulators.h", "gemm_tma_residual.h", "implicit_gemm_tma.h", "cluster_reduce.h",
    "gemm_tma_producer.h", "gemm_tma_epilogue.h", "gemm_tma_swap_ab.h",
    "gemm_tma.cu", "gemm_tma_reduce.cu",
)  # fmt: skip
# Those of floats.
FLOAT_TEXTS = tuple(text for text in TEXTS if text != "elements.h")
# Those that write rows of floats in strips.
_EPILOGUE, STRIPS = "gemm_tma_epilogue.h", ("float_strips.h", "gemm_tma_float_strips.h")
STRIP_TEXTS = tuple(name for text in FLOAT_TEXTS for name in (text, *STRIPS * (text == _EPILOGUE)))
# Those that write rows of 16-bit floats in vectors, from strips.
_SWAPPED, VECTORS = "gemm_tma_swap_ab.h", ("gemm_tma_vector_strips.h",)
VECTOR_TEXTS = tuple(name for text in TEXTS for name in (text, *VECTORS * (text == _SWAPPED)))
# Those that write images NCHW.
PLANE_TEXTS = tuple(
    name for text in TEXTS for name in (text, *["gemm_tma_planes.h"] * (text == _SWAPPED))
)
# Those of integers, which have no epilogue.
_BEHIND = {
    "mma.h": ["mma.h", "mma_int8_across.h"],
    "wgmma.h": ["wgmma.h", "wgmma_int8.h"],
}
INTEGER_TEXTS = tuple(name for text in FLOAT_TEXTS for name in _BEHIND.get(text, [text]))


def _operands(shape: Product, asked: Product) -> dict[str, int | str]:
    """Return the layouts of operands: of left ones across the sum those that are asked for."""
    given, plain = shape.operands(), asked.operands()
    if shape.dtype in HALVES or shape.gathers:
        return given
    a = {"A_STRIDE": plain["A_STRIDE"]} if shape.transpose_a else {}
    b = {} if shape.transpose_b else {"B_STRIDE": plain["B_STRIDE"]}
    return {**given, **a, **b}


def swapped_operands(
    shape: Product, given: dict[str, int | str] | None = None
) -> dict[str, int | str]:
    """Return the layouts of swapped, transposed operands, of which some are ``given``."""
    given = given or shape.operands()
    return {
        "A_STRIDE": given["B_STRIDE"], "B_STRIDE": given["A_STRIDE"],
        "TRANSPOSE_A": int(not shape.transpose_b), "TRANSPOSE_B": int(not shape.transpose_a),
    }  # fmt: skip


def kernel(
    shape: Product, choice: Mapping[str, int], plain: Product | None = None
) -> SourceKernel:
    """Return the kernel of a choice of knobs, and with split-K the one that reduces.

    Args:
        plain: what is asked for, where ``shape`` is that of padded copies of a and b: the kernel
            takes its arguments and writes its result.

    Raises:
        TemplateError: these copies cannot serve the shape, or a kernel of this choice would be
            wrong; the message says why.
    """
    tiling, asked = TmaTiling(shape, choice), plain or shape
    if reason := refusal(shape) or common.first_broken(faults(tiling)):
        raise TemplateError(f"gemm of {shape.dtype} by TMA: {reason}, got {shape}")
    defines = {**_defines(tiling, asked), **tiling.maps(asked)}
    calls = _calls(tiling, asked)
    source = common.cuda_kernel(
        asked, _texts(tiling, asked), defines, calls, flags=[f"-arch={ARCH}"]
    )
    workspaces = []
    if choice["split"] > 1 and not tiling.form.cluster_reduce:
        sums = "int32" if tiling.integers else "float32"
        workspaces.append(workspace("parts", (choice["split"] * tiling.part_size,), sums))
    if shape.gathers:  # one map more, so that the others can be aligned to their size
        maps = 1 + math.prod(calls[0].launch.grid)
        workspaces.append(workspace("maps", (maps * tensor_map.WORDS,), "int32"))
    return replace(source, workspace=workspaces)


def _texts(tiling: TmaTiling, asked: Product) -> tuple[str, ...]:
    """Return the texts of a kernel.

    Unaligned rows are written in vectors where matrices start at multiples of 16 bytes.
    """
    if tiling.integers:
        return INTEGER_TEXTS
    if tiling.floats:
        return STRIP_TEXTS if tiling.float_strip_bytes else FLOAT_TEXTS
    if plane_of(tiling.shape):
        return PLANE_TEXTS
    aligned = asked.batch == 1 or asked.m * asked.n % 8 == 0
    in_vectors = asked.n % 8 > 0 and tiling.smem_epilogue and tiling.strips and aligned
    return VECTOR_TEXTS if in_vectors else TEXTS


def _defines(tiling: TmaTiling, asked: Product) -> dict[str, int | str]:
    """Return the preprocessor definitions of a kernel, except for its tensor maps."""
    shape, c, form = tiling.shape, tiling.choice, tiling.form
    sizes = common.defines(
        m=tiling.m, n=tiling.n, k=tiling.k, c_m=asked.m, c_n=asked.n, threads=tiling.threads,
        resident=tiling.resident(HOPPER), cluster=form.cluster_reduce,
        cluster_reduce=form.cluster_reduce, tf32=tiling.floats,
        bfloat16=shape.dtype == "bfloat16", int8=tiling.integers,
        groups=tiling.tile_warpgroups, frags_m=c["frags_m"], tile_n=tiling.tile_n,
        chunk=c["chunk"], stages=c["stages"], split=c["split"], band=c["band"],
        schedule=form.schedule, cluster_m=form.cluster_m, swap_ab=form.swapped,
        cluster_n=form.cluster_n, box_rows=tiling.written_rows,
        ordered=tiling.ordered * (asked.n % 8 == 0 or not form.swapped),
        smem_epilogue=tiling.smem_epilogue and (asked.n % 8 == 0 or tiling.strips),
    )  # fmt: skip
    element = {"ELEMENT": 1 + HALVES.index(shape.dtype)} if shape.dtype in HALVES else {}
    operands = _operands(shape, asked)
    whole = bool(c["split"] == 1 or form.cluster_reduce)
    # Persistent kernels that can load a residual behind the sums do so.
    added = whole and starts_with_residual(asked) and (form.swapped or not form.persistent)
    strip_bytes = tiling.float_strip_bytes
    strips = {"STRIPS_AT": tiling.shared_bytes - strip_bytes} if strip_bytes else {}
    images = {"PLANE": plane} if (plane := plane_of(shape)) else {}
    if isinstance(shape, Conv2dNhwc):
        images |= {"IMAGES": shape.images, "TAP_RUN": implicit_gemm_tma.tap_run(shape)}
    return {
        **sizes,
        **images,
        **element,
        **strips,
        **operands,
        **gemm_wgmma.product_text(
            tiling.tile_n // tiling.joined, tiling.integers, tiling.left_in_registers > 0
        ),
        **gemm_wgmma.begin_and_end(asked.epilogue, whole),
        **({"RESIDUAL_FIRST": 1, "RESIDUAL": 0} if added else {}),
        **(swapped_operands(shape, operands) if form.swapped else {}),
    }


def _calls(tiling: TmaTiling, asked: Product) -> list[KernelCall]:
    """Return the launch of the products and, with split-K, that of the reduction."""
    a, b, *operands = first_names(asked)
    if tiling.form.swapped:
        a, b = b, a
    result, ranges = result_name(asked), tiling.choice["split"]
    alone = ranges == 1 or tiling.form.cluster_reduce
    written = result if alone else "parts"
    maps = ["maps"] if tiling.shape.gathers else []
    names, grid = [a, b, *operands, written, *maps], (tiling.grid(HOPPER), 1, ranges)
    products = call("gemm_tma", names, grid, tiling.threads, tiling.shared_bytes)
    if alone:
        return [products]
    blocks = tiling.part_size // (4 * SUM_THREADS)
    return [products, call("gemm_tma_reduce", ["parts", *operands, result], blocks, SUM_THREADS)]
