"""Products whose rows vectors cannot read, on copies that another kernel makes first."""

import ml_dtypes
import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_half, gemm_padded, gemm_unaligned, gemm_wgmma
from autotune.templates.products.gemm_shape import Gemm

import autotune
from autotune.runtime import cuda
from autotune.target import Target
from autotune.tvm import nd

pytestmark = pytest.mark.gpu

FULL = Epilogue(bias=True, residual=True, affine=True, activation="gelu", alpha=0.5)
SHAPES = {
    "nn": Gemm(333, 1003, 511, "bfloat16"),
    "nn-rest": Gemm(197, 771, 133, "float16", 3, epilogue=FULL),
    "nn-even-n": Gemm(200, 520, 257, "float16"),
    "nt": Gemm(257, 515, 771, "float16", 1, False, True),
    "nt-shared": Gemm(130, 259, 201, "bfloat16", 4, False, True, "b", FULL),
    "tn": Gemm(515, 257, 203, "float16", 2, True),
    "tt": Gemm(259, 263, 201, "float16", 1, True, True),
    "nt-b-padded": Gemm(257, 515, 771, "float16", 1, False, True, b_row=832),
    "nt-many-rows": Gemm(2049, 515, 767, "bfloat16", 1, False, True),
    "nn-few-rows": Gemm(9, 1003, 1021, "float16"),
    "nn-rest-long": Gemm(533, 771, 1021, "bfloat16", epilogue=FULL),
    "even": Gemm(330, 1006, 514, "bfloat16"),
    "walks": Gemm(2047, 2049, 129, "float16", 2),
}
# Of each kind.
DRAWN = 4


@pytest.fixture(scope="module", autouse=True)
def hopper(device_needed):
    if not gemm_wgmma.offered(Gemm(128, 128, 128, "float16"), Target("cuda")):
        pytest.skip("no wgmma")


def choices(family, shape):
    """Draw some choices by boxes, and some that read rows as they are; the default one first."""
    rng, options, target = np.random.default_rng(0), family.candidates(shape), Target("cuda")
    default = family.default_choice(shape, target)
    found = {"boxes": [default], **{form: [] for form in gemm_unaligned.forms(shape)}}
    for _ in range(20000):
        choice = {name: int(rng.choice(values)) for name, values in options.items()}
        kind = choice[gemm_half.KNOB] if choice[gemm_half.KNOB] in found else "boxes"
        boxes = choice[gemm_half.KNOB] > 1 and len(found[kind]) < DRAWN
        if boxes and family.violation(shape, choice, target) is None:
            found[kind].append(choice)
    return [choice for each in found.values() for choice in each]


@pytest.mark.parametrize("name", SHAPES)
def test_drawn_configurations_are_right(name):
    shape, rng = SHAPES[name], np.random.default_rng(1)
    family = gemm_padded.Padded(gemm_half)
    dtype = np.dtype(getattr(ml_dtypes, shape.dtype, shape.dtype))
    inputs = [
        rng.standard_normal(a.shape, np.float32).astype(dtype) for a in shape.arguments()[:-1]
    ]
    if shape.b_row:
        inputs[1][:, shape.k :] = 0
    wanted = shape.reference()(*(x.astype(np.float64) for x in inputs))
    bound = 2e-2 if shape.dtype == "bfloat16" else 4e-3
    for choice in choices(family, shape):
        function = autotune.build(family.kernel(shape, choice), target="cuda")
        out = nd.array(np.full(function.kernel.args[-1].shape, np.nan, dtype), cuda(0))
        for turn in range(4):  # copies of the turn before would be wrong
            given = [
                nd.array(-x if i == 0 and turn % 2 else x, cuda(0)) for i, x in enumerate(inputs)
            ]
            function(*given, out)
        function(*(nd.array(x, cuda(0)) for x in inputs), out)
        error = np.abs(out.numpy().astype(np.float64) - wanted).max() / np.abs(wanted).max()
        assert error < bound, f"{choice}"


# Ranges of K, of which the last has a part of a K tile alone where K is 1793.
RANGES = {
    "nn": (Gemm(70, 203, 1793, "float16", epilogue=FULL), (2, 4, 8)),
    "nn-even": (Gemm(66, 198, 1154, "bfloat16"), (2, 4)),
    "nt": (Gemm(65, 331, 1029, "float16", 1, False, True), (2, 4)),
    "nt-batch": (Gemm(40, 133, 1100, "bfloat16", 3, False, True, epilogue=FULL), (2, 4)),
}


def with_ranges(shape, split):
    """Return a choice of each form that runs: blocks of a cluster multiply a range of K each."""
    rng, options = np.random.default_rng(split), gemm_unaligned.candidates(shape)
    found = {}
    for _ in range(4000):
        choice = {name: int(rng.choice(values)) for name, values in options.items()}
        choice["split"] = split
        if gemm_unaligned.violation(shape, choice, Target("cuda")) is None:
            found.setdefault(choice[gemm_half.KNOB], choice)
    return list(found.values())


@pytest.mark.parametrize(
    ("name", "split"), [(name, split) for name, (_, every) in RANGES.items() for split in every]
)
def test_ranges_of_k_are_added_up_right_every_time(name, split):
    shape, rng = RANGES[name][0], np.random.default_rng(2)
    dtype = np.dtype(getattr(ml_dtypes, shape.dtype, shape.dtype))
    inputs = [
        rng.standard_normal(a.shape, np.float32).astype(dtype) for a in shape.arguments()[:-1]
    ]
    wanted = shape.reference()(*(x.astype(np.float64) for x in inputs))
    every = with_ranges(shape, split)
    assert every
    for choice in every:
        source = gemm_padded.Padded(gemm_half).kernel(shape, choice)
        function = autotune.build(source, target="cuda")
        arrays = [nd.array(x, cuda(0)) for x in inputs]
        out = nd.array(np.full(function.kernel.args[-1].shape, np.nan, dtype), cuda(0))
        for _ in range(100):  # launches that overlap
            function(*arrays, out)
        error = np.abs(out.numpy().astype(np.float64) - wanted).max() / np.abs(wanted).max()
        assert error < (2e-2 if shape.dtype == "bfloat16" else 4e-3), f"{choice}"
