"""The demonstration: who takes part, how they are timed, and what is said of it."""

import re
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest
from click.testing import CliRunner

from autotune.cli import demo, demo_closing, demo_command, demo_rivals
from autotune.cli.main import main
from autotune.runtime import summarize
from autotune.target import Target
from autotune.tuner import TuneResult


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "demo.log"


@pytest.fixture(scope="module")
def done(log):
    """A demonstration with a layer that takes microseconds, and few rounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "LAYER", (1, 7, 7, 32, 16, 3, 3, 1, 1, True, True))
        patch.setattr(demo, "_BUDGET_S", 0.1)
        patch.setattr(demo, "_SAMPLE_S", 1e-4)
        patch.setattr(demo_rivals.importlib.util, "find_spec", lambda name: None)
        patch.setattr("autotune.measure.final.race._HEATS", 2)
        return CliRunner().invoke(
            main, ["demo", "--target", "llvm", "--trials", "3", "--log", str(log)]
        )


def test_the_table_shows_plain_loops_the_default_the_winner_and_a_library(done):
    assert done.exit_code == 0, done.output
    body = done.output[done.output.rindex("against default") :].splitlines()[2:]
    rows = [line for line in body if line.endswith("x")]
    tuned = ["default configuration", "tuned"], ["tuned: the default configuration"]
    names = [["plain loops", *each, "numpy (unfold + BLAS)"] for each in tuned]
    assert [row.split("  ")[0].strip() for row in rows] in names
    # A row has none where the host was so busy that of its samples only one counts.
    assert any("+- " in row for row in rows)
    assert "1.00x" in rows[1]
    assert "largest error of the replayed kernel" in done.output


def test_the_end_says_what_was_won_and_its_program_calls_the_tuned_kernel(done, log):
    (won,) = [line for line in done.output.splitlines() if line.startswith("Tuned, the layer")]
    assert "as fast as plain loops" in won
    assert won.endswith("as fast as numpy (unfold + BLAS).")
    body = done.output[done.output.rindex("This program uses it") :]
    assert f"autotune log best {log} " in body
    assert f"autotune serve {log} " in body
    lines = re.findall(r"^(?: {4}(?!autotune).*)?\n", body, re.M)
    program = textwrap.dedent("".join(lines))
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("(1, 32, 7, 7) ")


def test_an_interrupted_demonstration_says_how_to_continue(monkeypatch, tmp_path):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_command, "run", interrupted)
    done = CliRunner().invoke(main, ["demo", "--target", "llvm", "--log", str(tmp_path / "x.log")])
    assert done.exit_code == 1
    assert f"The same command continues from {tmp_path / 'x.log'}." in done.output


def test_the_command_is_named_as_the_shell_finds_it(monkeypatch, tmp_path):
    script = tmp_path / "bin" / "autotune"
    script.parent.mkdir()
    script.touch(0o755)
    monkeypatch.setattr("sys.argv", [str(script), "demo"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert demo_closing.program() == str(script)
    monkeypatch.setenv("PATH", str(script.parent))
    assert demo_closing.program() == "autotune"


def test_plain_loops_compute_the_layer():
    target = Target("llvm")
    rng = np.random.default_rng(0)
    library = pytest.importorskip("autotune.templates.source")
    with target:
        args = library.conv2d_nchw_cpu(1, 7, 7, 8, 4, 3, 3, 1, 1, True, True).args
    module = demo_rivals.plain_loops(args, target)
    inputs = [rng.standard_normal(a.shape).astype(np.float32) for a in args[:3]]
    out = np.empty(args[3].shape, np.float32)
    module(*inputs, out)
    expected = demo_rivals._numpy(inputs)().reshape(out.shape)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_copies_are_used_in_turn():
    seen = []
    sampler = demo_rivals.TimedFunction([lambda i=i: seen.append(i) for i in range(3)])
    sampler.sample(4)
    sampler.sample(3)
    assert seen == [0, 1, 2, 0, 1, 2, 0]


class Torch(types.ModuleType):
    """As much of torch as the demonstration uses; the second layout is the faster one."""

    contiguous_format, channels_last = "rows", "channels"

    def __init__(self):
        super().__init__("torch")
        self.calls = []
        self.nn = types.SimpleNamespace(functional=self)
        self.no_grad = lambda: memoryview(b"")  # any context manager

    def from_numpy(self, values):
        return types.SimpleNamespace(
            contiguous=lambda memory_format: memory_format, reshape=lambda _: None
        )

    def conv2d(self, data, weight, bias, padding):
        self.calls.append(data)
        return data

    def relu(self, data):
        if data == "rows":
            sum(range(20_000))


def test_torch_is_timed_in_its_faster_layout(monkeypatch):
    torch = Torch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(demo_rivals.importlib.util, "find_spec", lambda name: object())
    inputs = [np.zeros((1, 4, 7, 7)), np.zeros((8, 4, 3, 3)), np.zeros((1, 8, 1, 1))]
    found = demo_rivals.libraries(Target("llvm"), inputs, 2)
    assert list(found) == ["numpy (unfold + BLAS)", "oneDNN (torch)"]
    torch.calls.clear()
    found["oneDNN (torch)"].sample(3)
    assert torch.calls == ["channels"] * 3
    assert found["oneDNN (torch)"].input_sets == 2


def comparison(race_s, replay, spread=0.01):
    result = TuneResult(None, None, race_s, spread, None, 1, 0, {}, "", None, 1.0)
    return demo.Comparison(result, {demo.TUNED: summarize(replay, 1)}, 0.0, "")


def test_a_replay_that_is_slower_beyond_the_noise_floor_is_said_so():
    said = comparison(1.7e-3, [2.4e-3, 2.41e-3, 2.39e-3], spread=0.031).drift
    assert said == (
        "the replay took 2400.0 us, tuning measured 1700.0 us: +41.2%, more than the noise floor "
        "of 3.1%"
    )


def test_a_default_that_wins_has_one_row():
    (row,) = demo.table(comparison(1e-3, [1e-3] * 3)).rows
    assert (row[0], row[-1]) == ("tuned: the default configuration", "1.00x")


def test_a_machine_that_became_slower_is_told_from_a_replay_that_did():
    slower = {demo.TUNED: summarize([1.1e-3] * 3, 1), demo.DEFAULT: summarize([1.5e-3] * 3, 1)}
    result = TuneResult(None, None, 0.8e-3, 0.01, 1.1e-3, 1, 0, {}, "", None, 1.0)
    said = demo.Comparison(result, slower, 0.0, "").drift
    assert said.endswith("; the default became slower too, by +36.4%, so the whole machine did")
    alone = {**slower, demo.DEFAULT: summarize([1.1e-3] * 3, 1)}
    assert "the machine" not in demo.Comparison(result, alone, 0.0, "").drift


def test_a_replay_within_the_noise_is_not():
    assert not comparison(2.3e-3, [2.4e-3, 2.6e-3, 2.2e-3]).drift
    assert not comparison(2.3e-3, [2.4e-3] * 3, spread=0.05).drift
    # Two runs differ by so much however little the samples of one do; faster is no disappointment.
    assert not comparison(12.23e-6, [12.33e-6] * 9, spread=0.001).drift
    assert not comparison(2.4e-3, [1.7e-3] * 3).drift
