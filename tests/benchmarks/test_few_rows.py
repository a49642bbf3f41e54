"""The table of `benchmarks.few_rows`."""

import pytest

from benchmarks import few_rows
from benchmarks.cubin import Time
from benchmarks.few_rows import OURS, head, rows

TIMES = {
    "writing": 20.0,
    "hot cuBLAS nt": 22.0, "hot untuned nt": 15.0, "hot tuned nt": 11.0,
    "hot cuBLAS nn": 18.0, "hot untuned nn": 18.0, "hot tuned nn": 20.0,
    "cold cuBLAS nt": 50.0, "cold untuned nt": 45.0, "cold tuned nt": 44.0,
    "cold cuBLAS nn": 48.0, "cold untuned nn": 48.0, "cold tuned nn": 48.0,
}  # fmt: skip


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_each_layout_has_a_row_and_cold_times_are_less_that_of_writing():
    times = {name: Time(name, us, us, us) for name, us in TIMES.items()}
    turned, plain = map(cells, rows("1x4096x4096", times, OURS))
    assert turned == [
        "1x4096x4096, nt", "22.00", "15.00", "11.00", "2.00", "1.64",
        "30.00", "25.00", "24.00", "1.25", "1.17",
    ]  # fmt: skip
    assert plain[:6] == ["1x4096x4096, nn", "18.00", "18.00", "20.00", "**0.90**", "**0.90**"]
    names = cells(head(OURS).splitlines()[0])
    assert len(names) == len(turned)
    assert names[4:6] == ["hot: cuBLAS / tuned", "hot: its faster layout / tuned"]


def test_without_trials_untuned_times_are_compared():
    times = {name: Time(name, us, us, us) for name, us in TIMES.items()}
    turned, _ = map(cells, rows("1x4096x4096", times, OURS[:1]))
    assert turned[:5] == ["1x4096x4096, nt", "22.00", "15.00", "1.47", "1.20"]
    assert len(cells(head(OURS[:1]).splitlines()[0])) == len(turned)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--only", "1x4096"], "expected ROWSxNxK"),
        (["--only", "1x64x64", "0x64x64"], "'0x64x64'"),
        (["--only", "2x 1x64x64"], "'2x 1x64x64'"),
        (["--only", "1x64x64 nt"], "'1x64x64 nt'"),
        (["--trials", "-3"], "expected a whole number of at least 0, got '-3'"),
    ],
)
def test_what_cannot_be_raced_is_refused_before_anything_is_built(options, reason, capsys):
    with pytest.raises(SystemExit):
        few_rows.main(options)
    assert reason in capsys.readouterr().err


def test_without_a_device_nothing_is_built(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(few_rows, "kernels_of_all", None)
    with pytest.raises(SystemExit, match="finds no CUDA device"):
        few_rows.main(["--only", "1x64x64"])
