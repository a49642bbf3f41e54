"""Loops and texts of many small schedules, kept to be read when they change.

`make golden` writes them anew; read the difference before committing it.
"""

import pytest

import tests.golden.cases  # noqa: F401  (registers the cases)
from autotune.codegen import kernel_of_function
from autotune.codegen.c import C
from autotune.codegen.cuda import CUDA
from autotune.lowering import lower_schedule
from tests.golden.case import CASES
from tests.golden.kept import HELPERS, TEXTS, fold, whole_text

DIALECTS = {"c": C, "cuda": CUDA}
SUFFIX = {"c": "c", "cuda": "cu"}


def built(name):
    """Return the loops of a case and its kernel."""
    language, build = CASES[name]
    schedule, args = build()
    function = lower_schedule(schedule, args, name, language)
    return str(function), kernel_of_function(function, language)


def launches(kernel):
    """Return how a kernel is called, in words."""
    lines = [
        f"// {one.entry}({', '.join(one.args)}) grid {one.launch.grid} block {one.launch.block} "
        f"shared {one.launch.shared_bytes}\n"
        for one in kernel.calls
    ]
    return "".join(lines) if kernel.language == "cuda" else ""


@pytest.mark.parametrize("name", CASES)
def test_text_is_as_kept(name, request):
    loops, kernel = built(name)
    suffix, helpers = SUFFIX[kernel.language], DIALECTS[kernel.language].helpers
    source, used = fold(launches(kernel) + kernel.source, helpers)
    texts = {TEXTS / f"{name}.ir": loops + "\n", TEXTS / f"{name}.{suffix}": source}
    texts |= {HELPERS / f"{helper}.{suffix}": helpers[helper] for helper in used}
    for path, text in texts.items():
        if request.config.getoption("--update-golden", False):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path.name} is missing; run `make golden` and read it"
        assert text == path.read_text(), f"{path.name} changed; run `make golden`, read the diff"
    assert whole_text(TEXTS / f"{name}.{suffix}") == launches(kernel) + kernel.source


def test_there_are_at_least_a_hundred_texts_and_none_is_left_over():
    kept = {path.name for path in TEXTS.iterdir()}
    expected = {f"{name}.ir" for name in CASES} | {
        f"{name}.{SUFFIX[language]}" for name, (language, _) in CASES.items()
    }
    assert kept == expected
    assert len(kept) >= 100
    named = "".join(path.read_text() for path in TEXTS.iterdir())
    assert all(f"// helper {path.stem}\n" in named for path in HELPERS.iterdir())


def test_building_twice_gives_the_same_text():
    for name in ("matmul_shared_cuda", "conv2d_direct_cuda", "softmax_plain_c"):
        assert built(name)[1] == built(name)[1]
