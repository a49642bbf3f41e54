"""Convolutions and products of 8-bit integers by the kernels of `gemm_tma`, with requantisation.

Those kernels count pairs of bytes as items of 16 bits: a convolution of bytes is one of 16-bit
floats with half of the channels, whose filters are K-major, as far as copies, tiles and estimates
are concerned. Only the instruction and the end of the kernel differ: `gemm_tma_requantise.h`.

TMA fills what is outside of images with zeros, so padded images must have 0 as zero point, as
those behind a ReLU have in uint8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from autotune import SourceKernel, Target
from autotune.errors import TemplateError

from .. import choices, common
from ..products import gemm_tma, gemm_wgmma
from ..products.gemm_shape import Gemm, Product
from ..products.gemm_tma_form import CLUSTER_REDUCE, KNOB, Form
from ..products.gemm_tma_rules import Rules, rules
from ..products.gemm_tma_tiling import TmaTiling
from ..tensor_map import ROW_BYTES, initializer, tensor_map
from .conv2d_int8 import IntegerConv2dNhwc
from .conv2d_nhwc import Conv2dNhwc

# Bytes of a vector, in which results are written.
VECTOR = 16
# Type of the items that stand for pairs of bytes.
PAIR = "float16"
_BEFORE = {"gemm_tma.h": ["requantise.h"], "gemm_tma.cu": ["gemm_tma_requantise.h"]}
TEXTS = tuple(each for text in gemm_tma.INTEGER_TEXTS for each in (*_BEFORE.get(text, ()), text))
# Cycles that the second kernel of split-K takes beyond the estimate: 512 filters of 3x3 on 7x7
# pixels took an H200 6.1 us so, and 5.3 within a cluster.
SECOND_KERNEL = 2500
# Extent of K up to which, and pixels up to which with half boxes, ``mma.sync`` is faster.
SHORT_SUM, FEW_PIXELS = 16, 2**14
# Registers of a thread that sums and a residual may take.
MOST = 168
# Stages of the pipeline that are tried where nothing was tuned: of choices as good, the first.
STAGES = (8, 6, 5, 4, 3, 2)


@dataclass(frozen=True)
class PairsOfBytes(Conv2dNhwc):
    """A convolution of bytes, of which two channels are an item."""

    @property
    def exact(self) -> bool:
        """Zeros beside a tap's channels times anything are zeros."""
        return True


def items_of(shape: IntegerConv2dNhwc) -> Product:
    """Return a shape as one of 16-bit items."""
    w = shape.window
    if w.taps == 1 and w.stride == (1, 1) and not any(w.padding):
        return Gemm(shape.m, shape.n, shape.k // 2, PAIR, transpose_b=True)
    images = shape.images, shape.h, shape.w, shape.co, shape.ci // 2
    return PairsOfBytes(*images, w, PAIR, transpose_b=True)


def refusal(shape: IntegerConv2dNhwc) -> str | None:
    """Return why these kernels cannot compute a shape, or None."""
    end = shape.end
    reason = common.first_broken([
        (shape.groups > 1, "channels must be in one group"),
        (shape.ci % VECTOR + shape.co % VECTOR > 0, f"channels must be multiples of {VECTOR}"),
        (end.zero != 0 and any(shape.window.padding), "padding must be 0"),
        (end.out_dtype == "float32", "results must be bytes"),
    ])  # fmt: skip
    return reason or gemm_tma.refusal(items_of(shape))


def offered(shape: IntegerConv2dNhwc, target: Target) -> bool:
    """Return whether a target has wgmma and TMA, and these kernels compute a shape."""
    return gemm_wgmma.has_wgmma(target) and refusal(shape) is None


def candidates(shape: IntegerConv2dNhwc) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    options = gemm_tma.candidates(items_of(shape))
    forms = [knob for knob in options[KNOB] if not Form.of(knob).swapped]
    return options | {
        KNOB: sorted({*forms, CLUSTER_REDUCE}),
        "frags_n": [width for width in options["frags_n"] if width % 2 == 0],
    }


def violation(shape: IntegerConv2dNhwc, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: IntegerConv2dNhwc, target: Target) -> Rules:
    """Return the rules of `violation`; choices may be arrays of them."""
    form = Form.of(choice[KNOB])
    vectors = 2 * common.pick(form.cluster_reduce, choice["split"], 1)
    added = shape.end.residual is not None
    return [
        (form.swapped > 0, "swapped operands"),
        (choice["frags_n"] % vectors > 0, "parts of vectors of results"),
        (added & (_registers(choice) > MOST), "a residual beside sums"),
        # The emulator has no clusters, and on a device none with a residual ran.
        (added & (form.cluster_reduce > 0), "a residual after a cluster reduction"),
        *rules(choice, items_of(shape), target),
    ]


def _registers(choice: Mapping[str, int]) -> int:
    """Return the registers of a thread for sums, and for vectors of a residual of as many."""
    boxes = common.ceil_div(choice["frags_n"], 16)
    return choice["frags_m"] * (4 * choice["frags_n"] + 16 * boxes)


def estimate(shape: IntegerConv2dNhwc, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles."""
    apart = (choice["split"] > 1) & (Form.of(choice[KNOB]).cluster_reduce == 0)
    return gemm_tma.estimate(items_of(shape), choice, target) + SECOND_KERNEL * apart


def default_choice(shape: IntegerConv2dNhwc, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    options = candidates(shape) | {"frags_m": [2, 1], "stages": list(STAGES), "band": [8, 4, 1]}
    return choices.best_of_all(
        options,
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def wins(shape: IntegerConv2dNhwc, target: Target) -> bool:
    """Return whether a shape runs by these kernels where nothing was tuned.

    Boxes have 128 bytes of a tap. On an H200 64 channels of 3x3 on one image of 56x56 took 4.7 us
    so, 3.9 by ``mma.sync``, and 16 channels of 1x1 on 112x112 5.0 and 4.1; others of
    ResNet-50 and MobileNet-V2 ran 0.9 to 1.7 times as fast. Those with a residual at batch 1 were
    up to 0.9 us slower, before residuals were loaded ahead, which was not timed.
    """
    half_boxes = shape.window.taps > 1 and shape.run % ROW_BYTES > 0
    return shape.k > SHORT_SUM and not (half_boxes and shape.m <= FEW_PIXELS)


def kernel(shape: IntegerConv2dNhwc, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs, and with split-K the one that reduces."""
    if reason := refusal(shape):
        raise TemplateError(f"conv2d_int8 by TMA: {reason}, got {shape}")
    items = items_of(shape)
    made, tiling = gemm_tma.kernel(items, choice), TmaTiling(items, choice)
    rest = [each.name for each in shape.arguments()[2:-1]]
    calls = []
    for one in made.calls:
        first = ["data", "weight"] if one.entry == "gemm_tma" else ["parts"]
        last = "parts" if "parts" in one.args and one.entry == "gemm_tma" else "out"
        maps = ["maps"] if "maps" in one.args else []
        calls.append(replace(one, args=(*first, *rest, last, *maps)))
    return replace(
        made,
        source=common.text("device.h", "maximum.h", *TEXTS),
        defines=_defines(shape, tiling, made.defines),
        args=shape.arguments(),
        calls=calls,
        workspace=[replace(each, dtype="int32") for each in made.workspace],
        reference=shape.reference(),
    )


def _defines(
    shape: IntegerConv2dNhwc, tiling: TmaTiling, of_items: Mapping[str, bool | int | float | str]
) -> dict[str, bool | int | float | str]:
    """Return the definitions of a kernel of items, with those of integers."""
    given = {name: value for name, value in of_items.items() if name != "ELEMENT"}
    rows = tiling.tile_n // tiling.form.cluster_m
    filters = tensor_map(shape.n, shape.k // 2, PAIR, rows)
    return {
        **given,
        **common.defines(int8=1, requantised=1, terms=shape.k),
        **gemm_wgmma.product_text(tiling.tile_n, True),
        "RESIDUAL": 0,
        **shape.end.defines(),
        "B_MAP": initializer(filters),
    }
