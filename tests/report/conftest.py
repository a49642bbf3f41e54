"""Logs for the tests of reports."""

import json

import pytest

from tests.report.rows import SCRIPT, row


@pytest.fixture
def log(tmp_path):
    def written(name, *rows):
        path = tmp_path / name
        path.write_text("".join(f"{one}\n" for one in rows))
        return path

    return written


@pytest.fixture
def hostile(log):
    """A log with a script wherever a text may stand."""
    known = json.loads(row("gemm", 1e-3))
    rows = []
    for place in range(6):
        one = json.loads(json.dumps(known))
        match place:
            case 0:
                one["input"][1] = SCRIPT.replace("\u2028", "")
            case 1:
                one["input"][2] = [SCRIPT]
            case 2:
                one["input"][0] = "c -model=" + SCRIPT.replace(" ", "").replace("\u2028", "")
            case 3:
                one["config"]["entity"] = [[SCRIPT, "ot", SCRIPT], ["k", "ot", [SCRIPT]]]
            case 4:
                one.update(error_msg=SCRIPT, result=[[1e9], 4, 0.1, 1.0])
            case 5:
                one["resources"] = {SCRIPT: 3}
                one["clocks"] = {SCRIPT: SCRIPT}
        rows.append(json.dumps(one))
    return log("hostile.log", *rows)
