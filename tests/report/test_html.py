"""The report: one file that holds the page and its data, whatever stands in the logs."""

import json
import re
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner

from autotune.cli.main import main
from autotune.errors import RecordError
from autotune.report import html_comparison, html_report
from tests.report.rows import row


class Elements(HTMLParser):
    """The scripts of a page, as browsers find their ends, and its attributes."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.names, self.open = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names += [(tag, name, value) for name, value in attrs]
        self.open = tag == "script"
        if self.open:
            self.scripts.append("")

    def handle_data(self, data):
        if self.open:
            self.scripts[-1] += data

    def handle_endtag(self, tag):
        self.open = False


def test_a_report_is_one_file_with_its_data_and_a_policy(log):
    text = html_report(
        [log("a.log", row("gemm", 1e-3), row("gemm", 2e-3, k=2), row("gemm", None, k=3))]
    )
    found = Elements(text)
    data, script = found.scripts
    assert json.loads(data)["overview"]["workloads"][0]["trials"] == 3
    assert "uPlot" in script
    policy = next(value for _, name, value in found.names if value and "default-src" in value)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not [
        one for one in found.names if one[1] in ("src", "style") or one[1].startswith("on")
    ]
    assert not re.search(
        r"https?://(?!www\.w3\.org)", re.sub(r"<script.*?</script>", "", text, flags=re.S)
    )


def test_scripts_in_a_log_stay_text(hostile, log):
    for text in (html_report([hostile]), html_report([hostile, log("b.log", row("gemm", 1e-3))])):
        found = Elements(text)
        assert len(found.scripts) == 2
        assert not [one for one in found.names if one[1].startswith("onerror")]
        assert "<img" not in text
        assert "alert(2)" in found.scripts[0]


def test_two_logs_are_compared_above_the_charts(log):
    old, new = log("a.log", row("gemm", 1e-3)), log("b.log", row("gemm", 2e-3, k=2))
    text = html_report([old, new])
    assert text.index('id="comparison"') < text.index("<main ")
    shown = html_comparison(old, new)
    assert "+100.0%" in shown
    assert "slower" in shown
    assert "k: 1 -&gt; 2" in shown
    assert 'id="comparison"' not in html_report([old])


def test_a_comparison_of_many_tasks_says_their_mean(log):
    names = [f"w{i}" for i in range(6)]
    old = log("a.log", *(row(name, 1e-3) for name in names), row("lost", 1e-3))
    new = log("b.log", *(row(name, 0.5e-3) for name in names), row("lost", None))
    shown = html_comparison(old, new)
    assert "Geometric mean of 6 tasks: -50.0%" in shown
    assert ">lost</td>" in shown


def test_the_command_writes_the_file_whole_or_not_at_all(log, tmp_path):
    path, out = log("a.log", row("gemm", 1e-3)), tmp_path / "reports" / "x.html"
    done = CliRunner().invoke(main, ["report", str(path), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert out.read_text().startswith("<!doctype html>")
    assert str(out) in done.output
    refused = CliRunner().invoke(main, ["report", str(path), "-o", "/proc/none/x.html"])
    assert refused.exit_code == 1
    assert "cannot write" in refused.output


def test_a_log_that_is_missing_is_said(tmp_path):
    done = CliRunner().invoke(main, ["report", str(tmp_path / "none.log")])
    assert done.exit_code == 1
    assert "cannot read the log" in done.output
    assert not (tmp_path / "report.html").exists()
    with pytest.raises(RecordError):
        html_report([tmp_path / "none.log"])


@pytest.mark.parametrize("text", ["", "garbage\n", "{}\n[1]\n", "\x00\xff" * 100])
def test_a_log_without_records_is_a_report_too(text, tmp_path):
    path = tmp_path / "x.log"
    path.write_text(text, "latin-1")
    data = json.loads(Elements(html_report([path])).scripts[0])
    assert data["overview"]["workloads"] == []


def test_logs_are_compared_and_other_files_are_refused(tmp_path):
    path = tmp_path / "x.log"
    path.touch()
    assert html_comparison(path, path)
    path.write_text("garbage\n")
    with pytest.raises(RecordError, match="its only line is not a record"):
        html_comparison(path, path)
