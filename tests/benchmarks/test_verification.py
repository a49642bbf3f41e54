"""A small part of the sweep of `benchmarks.verification`."""

import json

import pytest

from benchmarks.verification import __main__ as verification


@pytest.mark.many_cases
@pytest.mark.parametrize("only", ["topi matmul", "te/softmax", "gemm_nn.cpu 16"])
def test_right_kernels_pass_and_planted_errors_do_not(only, tmp_path, capsys):
    out = tmp_path / "found.json"
    chosen = ["--small", "--only", only, "--jobs", "1", "--configs", "1", "--out", str(out)]
    assert verification.main(chosen) == 0
    found = json.loads(out.read_text())
    assert found
    assert all(one["planted"] >= 4 and not one["missed"] for one in found)
    assert "0 refused falsely, 0 not judged" in capsys.readouterr().out


def test_a_case_that_cannot_be_made_does_not_end_the_sweep(monkeypatch, capsys):
    def broken(*_):
        raise ZeroDivisionError("no extents")

    monkeypatch.setattr(verification, "drawn", broken)
    assert verification.main(["--small", "--only", "te/softmax"])
    assert "ZeroDivisionError: no extents" in capsys.readouterr().out


def test_the_sweep_stops_in_time(capsys):
    assert verification.main(["--small", "--only", "te/gemm", "--seconds", "1e-3"]) == 0
    assert "stopped after 0.001 s" in capsys.readouterr().out
