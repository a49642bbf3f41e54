"""Attention by wgmma: right in the emulator, next to mma.sync in one space, and compiled well."""

from dataclasses import replace

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.attention import attention_mma, attention_space, attention_wgmma
from autotune.templates.attention.attention_mma import Attention

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
from tests.templates.assembled import needs_nvcc, spilled
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90")
LARGE = Attention(4, 16, 16, 2048, 2048, 128, causal=True)
# Shapes with edges, and how many warps, keys and stages.
CASES = {
    "several-chunks": (Attention(1, 2, 2, 70, 150, 64), (4, 64, 2)),
    "causal-grouped": (Attention(1, 4, 2, 50, 130, 64, True, 0.2, "bfloat16"), (4, 128, 2)),
    "two-groups": (Attention(1, 1, 1, 140, 140, 128, causal=True), (8, 64, 3)),
    "no-key-seen": (Attention(2, 1, 1, 90, 33, 64, causal=True), (4, 64, 2)),
    "rows-first": (Attention(2, 2, 1, 70, 130, 64, True, 0.0, "float16", "BSHD"), (4, 64, 2)),
    "packed": (Attention(2, 2, 2, 70, 70, 64, False, 0.0, "float16", "packed"), (4, 64, 2)),
    "part-of-a-panel": (Attention(1, 2, 2, 70, 150, 40), (4, 64, 2)),
    "odd-eights": (Attention(1, 2, 1, 70, 70, 72, True, 0.0, "bfloat16"), (4, 64, 3)),
    "panel-and-a-part": (Attention(1, 1, 1, 66, 77, 80), (4, 64, 2)),
    "wide": (Attention(1, 1, 1, 64, 70, 256), (4, 64, 2)),
    "biased": (
        Attention(1, 2, 1, 70, 70, 64, True, bias=(1, 2, 70), bias_dtype="float32"),
        (4, 64, 2),
    ),
    "ranges-of-keys": (Attention(1, 2, 2, 70, 330, 64), (4, 64, 2, 3)),
    "ranges-beyond-the-diagonal": (
        Attention(2, 2, 1, 70, 150, 72, True, 0.0, "bfloat16", "BSHD"),
        (8, 64, 2, 3),
    ),
    "packed-parts": (Attention(2, 2, 2, 70, 70, 80, False, 0.0, "float16", "packed"), (4, 64, 2)),
}


def choice_of(warps, keys, stages, split=1):
    return {"warps": warps, "keys": keys, "stages": stages, "split": split}


WALKED = {
    "several-chunks": (Attention(2, 2, 2, 150, 150, 64), (4, 64, 2)),
    "one-chunk": (Attention(3, 1, 1, 140, 50, 64), (4, 64, 3)),
    "two-groups": (Attention(3, 1, 1, 140, 140, 40), (8, 64, 2)),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", WALKED)
def test_blocks_walk_over_rows_that_fill_a_device_more_than_once(name, tmp_path, monkeypatch):
    monkeypatch.setattr(attention_wgmma.common, "multiprocessors", lambda target: 1)
    shape, knobs = WALKED[name]
    tiles = attention_wgmma.AttentionWgmmaTiling(shape, choice_of(*knobs)).blocks
    source = attention_wgmma.kernel(shape, choice_of(*knobs))
    assert source.calls[0].launch.grid[0] < tiles
    check_compiled(source, tmp_path)


def test_rows_that_attend_to_no_key_free_their_place_in_shared_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(attention_wgmma.common, "multiprocessors", lambda target: 1)
    monkeypatch.setattr(
        attention_wgmma.AttentionWgmmaTiling, "loads_queries", lambda tiling, target: False
    )
    shape = Attention(2, 1, 1, 130, 20, 32, causal=True)
    check_compiled(attention_wgmma.kernel(shape, choice_of(4, 64, 2)), tmp_path)


def test_blocks_of_one_work_tile_each_find_it_in_any_section(tmp_path, monkeypatch):
    monkeypatch.setattr(attention_mma, "SECTION_BYTES", 4 * 40 * 32)
    source = attention_wgmma.kernel(Attention(1, 3, 3, 40, 40, 32, True), choice_of(4, 64, 2))
    assert source.calls[0].launch.grid[0] == 3
    check_compiled(source, tmp_path)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", CASES)
def test_kernels_read_their_operands_where_copies_put_them(name, tmp_path):
    shape, knobs = CASES[name]
    # Checks take as long as all else: one case has them.
    source = attention_wgmma.kernel(shape, choice_of(*knobs))
    check_compiled(source, tmp_path, checked=name == "causal-grouped")


def check_compiled(source, tmp_path, checked=False):
    kernel, arrays = source.kernel("cuda"), arrays_of(source)
    library = compile_emulated(kernel, tmp_path / "kernel.so", arch="sm_90", checked=checked)
    EmulatedKernel(library, kernel).run(arrays, order=3, checked=checked)
    wanted = source.reference(*(x.astype(np.float64) for x in arrays[:-1]))
    np.testing.assert_allclose(arrays[-1].astype(np.float64), wanted, rtol=3e-2, atol=3e-3)


def test_one_space_holds_both_instructions_and_each_drawn_kernel_can_be_launched():
    task = create("attention.cuda", (4, 16, 2048, 2048, 128), HOPPER)
    sampled = [
        task.config_space.get(i) for i in task.config_space.sample(40, np.random.default_rng(0))
    ]
    assert {config["wgmma"].val for config in sampled} == {0, 1}
    for config in sampled:
        kernel = task.instantiate(config).kernel("cuda")
        assert launch_violation(kernel, HOPPER.limits) is None
        assert (kernel.name == "attention_wgmma") == config["wgmma"].val


@pytest.mark.parametrize(
    ("target", "args"),
    [
        ("cuda -arch=sm_80", (4, 16, 2048, 2048, 128)),
        ("cuda -emulate", (4, 16, 2048, 2048, 128)),
        ("cuda -arch=sm_90", (4, 16, 2048, 2048, 24)),
        ("cuda -arch=sm_90", (8, 32, 1, 4096, 128, 8)),
    ],
    ids=["ampere", "emulator", "other-size", "decoding"],
)
def test_where_wgmma_cannot_serve_the_space_is_that_of_mma_sync(target, args):
    space = create("attention.cuda", args, target).config_space
    assert "wgmma" not in space.space_map
    assert set(space.space_map) - {"apart"} == {"warps", "keys", "stages", "split"}


def test_a_configuration_from_before_wgmma_still_builds_its_kernel():
    choice = attention_mma.default_choice(LARGE, HOPPER)
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    task = create("attention.cuda", (4, 16, 2048, 2048, 128, 0, True), HOPPER)
    source = task.instantiate(ConfigEntity(7, None, entities))
    assert source.text() == attention_mma.kernel(LARGE, choice).text()


def test_a_size_that_leaves_most_of_a_panel_empty_is_refused_in_words():
    with pytest.raises(TemplateError, match="size must be a multiple of 8 from 32 on"):
        attention_wgmma.kernel(Attention(1, 1, 1, 64, 64, 24), choice_of(4, 64, 2))


@pytest.mark.parametrize(
    ("shape", "splits"),
    [
        (Attention(1, 2, 2, 682, 682, 96, causal=True), True),
        (Attention(2, 2, 2, 150, 900, 192), True),
        (Attention(1, 1, 1, 500, 3000, 96), True),
        (Attention(1, 4, 4, 300, 300, 128, causal=True), False),
        (LARGE, False),
    ],
)
def test_few_heads_of_many_keys_split_these_by_wgmma_untuned(shape, splits):
    choice = attention_space.MANY_QUERIES.default_choice(shape, HOPPER)
    assert choice["wgmma"] == 1
    assert (choice["split"] > 1) == splits


@pytest.mark.parametrize("size", [40, 64, 72, 80, 96, 128, 160, 256])
def test_both_defaults_are_choices_of_the_space(size):
    shape = Attention(4, 16, 4, 2048, 2048, size)
    for choice in (
        attention_space.MANY_QUERIES.default_choice(shape, HOPPER),
        {"wgmma": 1, **attention_wgmma.default_choice(shape, HOPPER)},
    ):
        assert attention_space.MANY_QUERIES.violation(shape, choice, HOPPER) is None


@pytest.mark.many_cases
@needs_nvcc
@pytest.mark.parametrize(
    ("size", "knobs"),
    [(128, (8, 128, 2)), (128, (4, 64, 2)), (80, (8, 128, 2)), (40, (8, 128, 2)),
     (256, (8, 64, 2))],
    ids=["alone", "two-blocks", "80", "40", "256"],
)  # fmt: skip
def test_products_are_not_serialized_and_nothing_is_spilled(size, knobs, tmp_path):
    shape = replace(LARGE, size=size)
    kernel = attention_wgmma.kernel(shape, choice_of(*knobs)).kernel("cuda")
    assert spilled(kernel, tmp_path) == [0]
