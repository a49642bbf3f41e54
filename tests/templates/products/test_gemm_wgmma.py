"""Products by wgmma: where they are offered, next to mma.sync, and that they compile well."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.window_shape import Window
from autotune.templates.epilogue import Epilogue, activated
from autotune.templates.products import (
    gemm_half,
    gemm_mma,
    gemm_padded,
    gemm_transposed,
    gemm_wgmma,
)
from autotune.templates.products.gemm_shape import Gemm

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
from tests.templates.assembled import needs_nvcc, spilled
from tests.templates.emulated import arrays_of, in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
REST = Epilogue(bias=True, residual=True, affine=True, activation="gelu", alpha=0.5)
# The bias of this is where sums begin.
BEGUN = Epilogue(bias=True, activation="gelu")
CHOICE = {
    "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 8, "chunk": 64, "stages": 2, "split": 1,
    "band": 1,
}  # fmt: skip
# Shapes with edges everywhere, and how their choices differ from that above.
PRODUCTS = {
    "nn": (Gemm(66, 72, 72, "float16"), {"chunk": 128}),
    "nt": (Gemm(66, 72, 72, "float16", 1, False, True), {"stages": 3}),
    "tn": (Gemm(72, 80, 67, "float16", 2, True, False, "a", REST), {}),
    "tt": (Gemm(136, 72, 72, "bfloat16", 1, True, True), {"warps_m": 8}),
    "two-fragments": (Gemm(72, 72, 136, "float16", 1, True, True), {"frags_m": 2, "frags_n": 16}),
    "even-columns": (Gemm(65, 58, 72, "float16", 2, False, True, "b", REST), {}),
    "odd-on-copies": (Gemm(65, 77, 71, "bfloat16", 1, False, False, "", REST), {}),
    "narrow": (Gemm(66, 104, 136, "float16", 1, False, True, "", BEGUN), {"frags_n": 12}),
    "tf32": (Gemm(66, 71, 76, "tf32", 1, False, True, "", REST), {"chunk": 32}),
    "tf32-turned": (Gemm(66, 71, 77, "tf32", 2, True, False, "b", REST), {"chunk": 32}),
    "windows": (
        Conv2dNhwc(2, 9, 7, 72, 24, Window((3, 3), (2, 1), (1, 2, 0, 1), (1, 2)), "float16", REST),
        {"frags_m": 2},
    ),
    "tf32-turned-windows": (
        Conv2dNhwc(2, 9, 7, 70, 20, Window((3, 3), (2, 1), (1, 2, 0, 1), (1, 2)), "tf32", REST),
        {"chunk": 32},
    ),
}
SHAPES = [
    Gemm(197, 3072, 768, "float16", 1, False, True, "", REST),
    Gemm(256, 304, 264, "bfloat16", 3, True, True, "b", REST),
    Gemm(512, 512, 256, "tf32", 1, False, True),
    Conv2dNhwc(16, 28, 28, 128, 128, Window((3, 3), (1, 1), (1, 1, 1, 1), (1, 1)), "float16"),
    Gemm(4096, 4096, 4096, "float16"),
    Gemm(1000, 1048, 1016, "bfloat16"),
    Gemm(16, 4096, 4096, "float16"),
    Gemm(1, 8, 8, "float16"),
]


def drawn(shape, count, fits=lambda choice: True):
    """Draw valid choices of knobs, each once."""
    rng, options = np.random.default_rng(0), gemm_wgmma.candidates(shape)
    found = []
    for _ in range(20000):
        choice = {name: int(rng.choice(values)) for name, values in options.items()}
        valid = gemm_wgmma.violation(shape, choice, HOPPER) is None
        if valid and fits(choice) and choice not in found:
            found.append(choice)
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize(
    ("columns", "split", "strips"), [(71, 1, True), (72, 1, False), (71, 2, False)]
)
def test_rows_of_floats_that_are_no_whole_sectors_are_written_in_strips(columns, split, strips):
    shape = Gemm(128, columns, 256, "tf32", 1, False, True)
    choice = gemm_wgmma.default_choice(shape, HOPPER) | {"split": split, "stages": 2}
    assert gemm_wgmma.violation(shape, choice, HOPPER) is None
    assert ("float_strip" in gemm_wgmma.kernel(shape, choice).source) == strips


def test_full_tiles_are_left_to_wgmma():
    task = create("gemm_nn.cuda", (1024, 1024, 1024, "float16"), HOPPER)
    space = task.config_space
    sampled = [space.get(i) for i in space.sample(50, np.random.default_rng(0))]
    assert 0 not in {config["wgmma"].val for config in sampled}
    assert {task.instantiate(config).name for config in sampled} == {"gemm_wgmma", "gemm_tma"}


def test_few_rows_have_both_instructions_in_one_space():
    space = create("gemm_nn.cuda", (16, 4096, 4096, "float16"), HOPPER).config_space
    sampled = [space.get(i) for i in space.sample(400, np.random.default_rng(0))]
    assert {config["wgmma"].val for config in sampled} >= {0, 1}


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "cuda -arch=sm_100", "cuda -emulate"])
def test_other_targets_keep_the_space_of_mma_sync(target):
    space = create("gemm_nn.cuda", (256, 256, 256, "float16"), target).config_space
    assert list(space.space_map) == list(gemm_mma.candidates(Gemm(256, 256, 256, "float16")))


def test_rows_that_cannot_be_copied_keep_mma_sync():
    task = create("gemm_nn.cuda", (256, 260, 256, "float16"), HOPPER)
    assert "wgmma" not in task.config_space.space_map


def test_a_configuration_from_before_wgmma_still_builds_its_kernel():
    shape = Gemm(1024, 1024, 1024, "float16")
    choice = gemm_mma.default_choice(shape, Target("cuda -arch=sm_80"))
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    task = create("gemm_nn.cuda", (1024, 1024, 1024, "float16"), HOPPER)
    source = task.instantiate(ConfigEntity(7, None, entities))
    assert source.text() == gemm_mma.kernel(shape, choice).text()


def test_floats_that_do_not_stand_along_k_run_by_boxes_as_they_are_and_else_on_copies():
    shape = Gemm(256, 256, 256, "tf32")
    with pytest.raises(TemplateError, match=r"must be K-major.*transpose_b=True"):
        gemm_wgmma.kernel(shape, CHOICE)
    task = create("gemm.cuda", (256, 256, 256, "tf32"), HOPPER)
    assert task.config_space.space_map["wgmma"]
    choice = {"wgmma": 1, **CHOICE, "chunk": 32}
    assert gemm_transposed.violation(shape, choice, HOPPER) is None
    entries = [one.entry for one in gemm_transposed.kernel(shape, choice).calls]
    assert entries == ["along_k_b", "gemm_wgmma"]
    untuned = gemm_transposed.default_choice(shape, HOPPER)
    assert gemm_transposed.violation(shape, untuned, HOPPER) is None
    assert gemm_transposed.kernel(shape, untuned).calls[0].entry == "gemm_tma"


@pytest.mark.parametrize(
    ("shape", "copied"),
    [
        (Gemm(512, 512, 512, "tf32"), []),
        (Gemm(512, 512, 512, "tf32", 1, True, True), []),
        (Gemm(512, 512, 512, "tf32", 1, True), ["along_k_b"]),
        (Gemm(512, 511, 512, "tf32"), ["along_k_b"]),
        (Gemm(511, 512, 512, "tf32", 1, True, True), ["along_k_a"]),
        (Gemm(512, 512, 511, "tf32", 1, True, True), ["along_k_b"]),
    ],
    ids=["nn", "tt", "tn", "odd columns", "odd rows", "odd sums"],
)
def test_floats_are_copied_where_no_products_read_them_as_they_stand(shape, copied):
    entries = [
        one.entry
        for one in gemm_transposed.kernel(
            shape, gemm_transposed.default_choice(shape, HOPPER)
        ).calls
    ]
    assert [entry for entry in entries if entry.startswith("along")] == copied


def test_sums_that_are_short_run_by_the_older_instruction_unless_boxes_serve_and_keep_both():
    older = {k: Gemm(512, 512, k, "float16", 3, False, True, "", REST) for k in (64, 768)}
    untuned = {k: gemm_half.default_choice(one, HOPPER) for k, one in older.items()}
    assert untuned[64]["wgmma"] == 0
    assert gemm_half.by_boxes(untuned[768])
    choice = {"wgmma": 0, **gemm_mma.default_choice(older[64], HOPPER)}
    assert gemm_half.violation(older[64], choice, HOPPER) is None
    assert gemm_half.violation(older[768], choice, HOPPER) == "mma.sync where wgmma has full tiles"


# Of these wgmma serves by TMA only, which is too slow for the first: it runs by mma.sync.
FEW_FILTERS = [
    ((1, 45, 28, 24, 192, 1, 1, 3, 1, False, "none", False, False, 1, "tf32"), False),
    ((3, 45, 26, 8, 192, 2, 3, 1, 0, False, "none", False, False, (2, 1), "tf32"), True),
    ((1, 97, 64, 60, 64, 7, 7, 3, 0, False, "none", False, False, (2, 1), "tf32"), True),
]


@pytest.mark.parametrize(("args", "by_tma"), FEW_FILTERS)
def test_a_space_does_not_lack_its_untuned_choice(args, by_tma):
    """A network would run such a layer by a schedule made by rule."""
    default = create("conv2d_nhwc.cuda", args, HOPPER).default()
    assert default is not None
    assert (default["wgmma"].val > 1) == by_tma


def test_small_floats_run_by_mma_sync_untuned():
    task = create("gemm.cuda", (64, 48, 64, "tf32"), HOPPER)
    assert task.default()["wgmma"].val == 0


def test_rows_that_cannot_be_copied_are_an_error_that_says_so():
    shape = Gemm(64, 100, 64, "float16")
    choice = {name: values[0] for name, values in gemm_wgmma.candidates(shape).items()}
    with pytest.raises(TemplateError, match="must be multiples of 8 elements"):
        gemm_wgmma.kernel(shape, choice)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_read_their_operands_where_copies_put_them(name, tmp_path):
    """The emulator reads shared memory where the descriptors of operands say that they are."""
    shape, change = PRODUCTS[name]
    family = gemm_padded.Padded(gemm_half) if name == "odd-on-copies" else gemm_half
    family = gemm_transposed if "turned" in name else family
    source = family.kernel(shape, {"wgmma": 1, **CHOICE, **change})
    assert source.calls[-1].entry == "gemm_wgmma"
    got, wanted = in_the_emulator(source, tmp_path, arrays_of(source))
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=2e-2)


@pytest.mark.many_cases
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_activations_of_16_bit_floats_are_within_a_step_or_a_millionth(
    activation, dtype, tmp_path
):
    shape = Gemm(64, 8, 8, dtype, epilogue=Epilogue(activation=activation))
    source = gemm_wgmma.kernel(shape, CHOICE)
    kernel, arrays = source.kernel("cuda"), arrays_of(source)
    arrays[0][:] = np.linspace(-12, 12, 512).reshape(64, 8)
    arrays[1][:] = np.eye(8)
    library = compile_emulated(kernel, tmp_path / "kernel.so", arch="sm_90", checked=False)
    EmulatedKernel(library, kernel).run(arrays, order=0, checked=False)
    wanted = activated(arrays[0].astype(np.float64), activation)
    apart = np.abs(arrays[-1].astype(np.float64) - wanted)
    step = np.exp2(np.floor(np.log2(np.abs(wanted) + 1e-30)) - (10 if dtype == "float16" else 7))
    assert (apart <= np.maximum(step, 4e-7)).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_untuned_choice_is_valid(shape):
    choice = gemm_half.default_choice(shape, HOPPER)
    assert gemm_half.violation(shape, choice, HOPPER) is None
    kernel = gemm_half.kernel(shape, choice).kernel("cuda")
    assert launch_violation(kernel, HOPPER.limits) is None


@pytest.mark.many_cases
@needs_nvcc
@pytest.mark.parametrize(
    ("number", "split"),
    [(0, False), (1, True), (4, False), (4, True)],
    ids=["followed", "followed-split", "whole", "split"],
)
def test_products_are_not_serialized_and_sums_stay_in_registers(number, split, tmp_path):
    shape = SHAPES[number]
    for choice in drawn(shape, 2, lambda choice: (choice["split"] > 1) == split):
        kernel = gemm_wgmma.kernel(shape, choice).kernel("cuda")
        assert spilled(kernel, tmp_path)[0] <= 32, choice


def test_large_products_of_floats_have_two_groups_of_warps_untuned():
    shape = Gemm(2048, 2048, 2048, "tf32", 1, False, True)
    choice = gemm_wgmma.default_choice(shape, HOPPER)
    assert (choice["warps_m"], choice["frags_m"] * choice["frags_n"]) in ((8, 32), (4, 64))
