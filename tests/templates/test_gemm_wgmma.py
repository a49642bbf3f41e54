"""Products by wgmma: where they are offered, next to mma.sync, and that they compile well."""

import shutil
import subprocess

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates import gemm_half, gemm_mma, gemm_wgmma
from autotune.templates.gemm_shape import Gemm

from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity

HOPPER = Target("cuda -arch=sm_90")
SHAPES = [
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


def test_full_tiles_are_left_to_wgmma():
    task = create("gemm_nn.cuda", (1024, 1024, 1024, "float16"), HOPPER)
    space = task.config_space
    sampled = [space.get(i) for i in space.sample(50, np.random.default_rng(0))]
    assert {config["wgmma"].val for config in sampled} == {1}
    assert {task.instantiate(config).name for config in sampled} == {"gemm_wgmma"}


def test_few_rows_have_both_instructions_in_one_space():
    space = create("gemm_nn.cuda", (16, 4096, 4096, "float16"), HOPPER).config_space
    sampled = [space.get(i) for i in space.sample(100, np.random.default_rng(0))]
    assert {config["wgmma"].val for config in sampled} == {0, 1}


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


def test_rows_that_cannot_be_copied_are_an_error_that_says_so():
    shape = Gemm(64, 100, 64, "float16")
    choice = {name: values[0] for name, values in gemm_wgmma.candidates(shape).items()}
    with pytest.raises(TemplateError, match="n and k must be multiples of 8"):
        gemm_wgmma.kernel(shape, choice)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_untuned_choice_is_valid(shape):
    choice = gemm_half.default_choice(shape, HOPPER)
    assert gemm_half.violation(shape, choice, HOPPER) is None
    kernel = gemm_half.kernel(shape, choice).kernel("cuda")
    assert launch_violation(kernel, HOPPER.limits) is None


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_products_are_not_serialized_and_sums_stay_in_registers(shape, split, tmp_path):
    for choice in drawn(shape, 3, lambda choice: (choice["split"] > 1) == split):
        kernel, text = gemm_wgmma.kernel(shape, choice).kernel("cuda"), tmp_path / "kernel.cu"
        text.write_text(kernel.source)
        command = ["nvcc", "-cubin", *kernel.flags, "-Xptxas", "-v", text, "-o", tmp_path / "out"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        # C7510 says that the assembler waits for each product.
        assert "C7510" not in done.stderr
        spilled = int(done.stderr.partition(" bytes spill stores")[0].split()[-1])
        assert spilled <= 32, f"{choice}: {spilled} bytes"
