"""Figures of logs: every picture is drawn from what the log says, whatever it says."""

import json
import resource
import xml.etree.ElementTree as ET

import pytest
from click.testing import CliRunner

from autotune.cli import log_plot
from autotune.cli.main import main
from autotune.dashboard import Model, View
from autotune.errors import RecordError
from autotune.report import PANELS, draw, figures
from tests.report.rows import row

pytest.importorskip("matplotlib")
ROOF = {"roofline": 0.4, "roof": [2e9, 1e6, 6e13, 4e12]}


@pytest.fixture
def tuned(log):
    rows = []
    for k in range(12):
        one = json.loads(row("gemm", None if k == 5 else 1e-3 / (k + 1), k=k, **ROOF))
        one["config"]["entity"] += [
            ["tile", "sp", [-1, 2 ** (k % 3)]],
            ["mode", "ot", "ab"[k % 2]],
        ]
        one["result"][3] = 1.7e9 + k
        rows.append(json.dumps(one))
    return log("a.log", *rows)


def view_of(*paths):
    model = Model(list(paths))
    model.read()
    return model.view(View())


def texts(path):
    """Return the comments of an SVG of matplotlib, which hold its texts."""
    return path.read_text("utf-8")


def test_every_panel_is_drawn_by_default(tuned, tmp_path):
    out = tmp_path / "x.svg"
    done = CliRunner().invoke(main, ["log", "plot", str(tuned), "--out", str(out)])
    assert done.exit_code == 0, done.output
    ET.parse(out)
    shown = texts(out)
    for words in ("best so far", "seconds since the first", "parallel coordinates", "roofline",
                  "RUNTIME_DEVICE", "it crashed", "tile", "mode"):  # fmt: skip
        assert f"<!-- {words}" in shown or words in shown, words
    assert "mathdefault" not in shown  # formulas are switched off, in labels of axes too


@pytest.mark.many_cases
@pytest.mark.parametrize("panel", sorted(PANELS))
def test_each_panel_stands_alone(tuned, tmp_path, panel):
    out = tmp_path / "x.png"
    words = ["log", "plot", str(tuned), "--out", str(out), "--panel", panel]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert out.read_bytes().startswith(b"\x89PNG")


def test_the_command_knows_all_panels():
    assert set(log_plot._PANELS) == set(PANELS)


def test_what_a_log_does_not_have_is_left_out_or_said(log, tmp_path):
    plain = log("b.log", row("gemm", 1e-3))
    out = tmp_path / "x.svg"
    draw(view_of(plain), "gemm", ["b.log"], out, list(PANELS))
    assert "roofline" not in texts(out)
    with pytest.raises(RecordError, match="nothing to draw of roofline"):
        draw(view_of(plain), "gemm", ["b.log"], out, ["roofline"])


def test_two_logs_are_two_lines(tuned, log, tmp_path):
    out = tmp_path / "x.svg"
    other = log("b.log", row("gemm", 5e-4, k=1), row("gemm", 2e-4, k=2))
    words = ["log", "plot", str(tuned), str(other), "--panel", "trials", "--out", str(out)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "a.log" in texts(out)
    assert "b.log" in texts(out)


def test_what_a_log_says_is_drawn_as_text(hostile, tmp_path):
    out = tmp_path / "x.svg"
    done = CliRunner().invoke(main, ["log", "plot", str(hostile), "--out", str(out)])
    assert done.exit_code == 0, done.output
    for path in tmp_path.glob("x*.svg"):
        tags = {element.tag.rpartition("}")[2] for element in ET.parse(path).iter()}
        assert not tags & {"script", "img", "foreignObject"}


def test_a_figure_that_cannot_be_written_leaves_nothing_behind(tuned, tmp_path):
    out = tmp_path / "figure" / "tuning.png"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        done = CliRunner().invoke(
            main, ["log", "plot", str(tuned), "--panel", "trials", "--out", str(out)]
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (done.exit_code, list(out.parent.iterdir())) == (1, [])
    assert f"cannot draw {out}: File too large" in done.output


def test_a_log_that_is_missing_is_said(tmp_path):
    done = CliRunner().invoke(main, ["log", "plot", str(tmp_path / "none.log")])
    assert done.exit_code == 1
    assert "cannot read the log" in done.output


def test_counts_of_a_kind_of_failure_and_of_its_text_are_told_apart():
    texts = [{"text": "error 27: at line 27\nmore", "count": 36}, {"text": "other", "count": 2}]
    assert figures._told({"count": 1767, "texts": texts}) == (
        "1767; most frequent (36): error 27: at line 27"
    )
    assert figures._told({"count": 2, "texts": texts[1:]}) == "2: other"


def test_the_winner_of_a_race_is_marked_with_its_time_there(log, tmp_path):
    rows = [row("gemm", 1e-5, k=1), row("gemm", 8e-6, k=2)]
    raced = json.loads(row("gemm", 5e-6, k=1)) | {"race": {"candidates": [], "tied": [1]}}
    out = tmp_path / "x.svg"
    draw(view_of(log("a.log", *rows)), "gemm", ["a.log"], out, ["trials"])
    assert "winners of the final race" not in texts(out)
    draw(
        view_of(log("b.log", *rows, f"# race {json.dumps(raced)}")),
        "gemm",
        ["b.log"],
        out,
        ["trials"],
    )
    assert "winners of the final race" in texts(out)
