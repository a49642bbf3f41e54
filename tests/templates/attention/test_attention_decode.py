"""Attention of few queries, whose warps take keys of their own."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.attention import attention_decode, attention_mma, attention_space
from autotune.templates.attention.attention_mma import Attention

from autotune.emulator import run_emulated
from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, OtherOptionEntity, create
from tests.templates.assembled import needs_nvcc, spilled
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90")
DECODING = Attention(8, 32, 8, 1, 4096, 128)

# warps, keys of a chunk, stages, split
CASES = {
    "one-query": (Attention(1, 8, 2, 1, 200, 128), (2, 16, 3, 2)),
    "causal": (Attention(2, 4, 2, 3, 77, 64, True, 0.0, "bfloat16", "BSHD"), (2, 32, 2, 1)),
    "two-tiles": (Attention(1, 20, 1, 1, 100, 64), (1, 16, 2, 1)),
    "split": (Attention(1, 4, 4, 1, 130, 192), (2, 16, 2, 4)),
    "more-queries-than-keys": (Attention(1, 2, 1, 5, 3, 64, True), (2, 16, 2, 1)),
    "packed": (Attention(2, 4, 2, 9, 9, 64, False, 0.3, "float16", "packed"), (1, 16, 2, 1)),
    "empty-range": (Attention(1, 4, 4, 1, 16 * 33, 64), (1, 16, 2, 18)),
    "padded-heads": (Attention(1, 8, 2, 1, 90, 96, False, 0.0, "bfloat16"), (2, 16, 3, 2)),
    "heads-of-256": (Attention(1, 8, 4, 1, 130, 256), (2, 16, 2, 2)),
    "heads-of-40": (Attention(2, 3, 1, 2, 50, 40, True, 0.0, "float16", "BSHD"), (1, 32, 2, 1)),
    "warps-without-keys": (Attention(1, 2, 2, 1, 20, 64), (8, 16, 4, 1)),
}


def choice_of(warps, keys, stages, split):
    return {"warps": warps, "keys": keys, "stages": stages, "split": split}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", CASES)
def test_kernels_match_their_reference_in_the_emulator(name):
    shape, knobs = CASES[name]
    source = attention_decode.kernel(shape, choice_of(*knobs))
    arrays = arrays_of(source)
    run_emulated(source.kernel("cuda"), arrays, orders=(0, 7))
    wanted = source.reference(*(x.astype(np.float64) for x in arrays[:-1]))
    np.testing.assert_allclose(arrays[-1].astype(np.float64), wanted, rtol=3e-2, atol=3e-3)


def test_one_space_holds_both_kinds_and_each_drawn_kernel_can_be_launched():
    task = create("attention.cuda", (8, 32, 1, 4096, 128, 8), HOPPER)
    sampled = [
        task.config_space.get(i) for i in task.config_space.sample(40, np.random.default_rng(0))
    ]
    assert {config["apart"].val for config in sampled} == {0, 1}
    for config in sampled:
        kernel = task.instantiate(config).kernel("cuda")
        assert launch_violation(kernel, HOPPER.limits) is None
        assert (kernel.name == "attention_decode") == config["apart"].val


@pytest.mark.parametrize(
    "args",
    [(1, 33, 1, 4096, 128, 1), (1, 4, 1, 4096, 36, 4)],
    ids=["many-rows", "odd-heads"],
)
def test_where_keys_apart_cannot_serve_the_space_is_that_of_rows(args):
    space = create("attention.cuda", args, "cuda -arch=sm_90").config_space
    assert set(space.space_map) == {"warps", "keys", "stages", "split"}


def test_a_configuration_from_before_still_builds_its_kernel():
    choice = attention_mma.default_choice(DECODING, HOPPER)
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    task = create("attention.cuda", (8, 32, 1, 4096, 128, 8), HOPPER)
    source = task.instantiate(ConfigEntity(7, None, entities))
    assert source.text() == attention_mma.kernel(DECODING, choice).text()


def test_a_size_without_a_text_is_refused_in_words():
    with pytest.raises(TemplateError, match="size must be a multiple of 8 up to 256"):
        attention_decode.kernel(Attention(1, 1, 1, 1, 64, 204), choice_of(1, 16, 2, 1))


@pytest.mark.parametrize("heads", [1, 8, 32])
@pytest.mark.parametrize("batch", [1, 32])
@pytest.mark.parametrize("keys", [1, 15, 512, 8192, 32768])
def test_defaults_are_choices_of_the_space(batch, heads, keys):
    shape = Attention(batch, heads, max(heads // 4, 1), 1, keys, 128)
    choice = attention_space.FEW_QUERIES.default_choice(shape, HOPPER)
    assert attention_space.FEW_QUERIES.violation(shape, choice, HOPPER) is None


@pytest.mark.many_cases
@needs_nvcc
@pytest.mark.parametrize("size", [64, 128, 192])
def test_nothing_is_spilled(size, tmp_path):
    shape = Attention(1, 4, 1, 1, 4096, size)
    kernel = attention_decode.kernel(shape, choice_of(4, 32, 2, 8)).kernel("cuda")
    assert not any(spilled(kernel, tmp_path))
