"""What the book says was printed was printed: by `make docs-record`, which says when and where."""

import json
import subprocess
import sys

import pytest

from docs import record
from docs.pages import Block, blocks, run, written

RECORDED = json.loads(record.RECORDED.read_text("utf-8"))


@pytest.mark.parametrize("page", record.shown())
def test_what_a_page_shows_was_recorded(page):
    text = record.shown()[page].read_text("utf-8")
    known = RECORDED[page]
    assert record.digest(blocks(text)) == known["digest"], f"run: python docs/record.py {page}"
    assert f"printed on {known['date']} by {known['machine']}." in text


def test_nothing_is_recorded_of_a_page_that_is_gone():
    assert set(RECORDED) == set(record.shown())


PAGE = """# A page
```python
x = 2
print(x + x)
```
```text output
typed
```
```python data.py
print("saved")
```
```console
$ python data.py
typed too
$ echo more
```
The end.
"""


def test_recording_replaces_what_was_typed_by_what_is_printed(tmp_path):
    program = record.Program(tmp_path)
    new = list(run(blocks(PAGE), tmp_path, program.python, program.command))
    text = written(PAGE, new)
    assert "typed" not in text
    assert "```text output\n4\n```" in text
    assert "```console\n$ python data.py\nsaved\n$ echo more\nmore\n```\nThe end." in text
    assert written(text, []) == text


def test_what_others_use_of_the_machine_is_seen_and_what_a_page_uses_is_its_own(monkeypatch):
    clock = {"busy": 0.0, "own": 0.0, "now": 0.0}
    monkeypatch.setattr(record, "_busy_s", lambda: clock["busy"])
    monkeypatch.setattr(record, "_own_s", lambda: clock["own"])
    monkeypatch.setattr(record.time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(record.os, "cpu_count", lambda: 2)
    others = record.Others()
    clock.update(busy=20.0, own=19.0, now=10.0)
    assert others.complaint() == ""
    clock.update(busy=20.0, own=10.0)
    assert others.complaint() == "other processes used 1.0 of 2 cores"


def test_children_that_still_run_are_no_others():
    before = record._own_s()
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(1, flush=True)\ninput()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as child:
        child.stdout.readline()
        assert record._own_s() - before >= 0.25
        child.communicate(b"\n")


def test_names_of_temporary_files_are_the_same_each_time(tmp_path):
    one, other = (f"is in /tmp/autotune_errors_{x}.log\n" for x in ("8k34_xn9", "qq7tjyeu"))
    assert record.tidied(one, tmp_path) == record.tidied(other, tmp_path)


def test_a_changed_number_changes_the_digest():
    one, other = (Block("console", "", f"$ x\n{n} us\n", 0) for n in (1, 2))
    assert record.digest([one]) != record.digest([other])


def test_folders_of_the_machine_are_not_shown(tmp_path):
    said = f"in {tmp_path}/x.log and {record.DOCS.parent}/autotune/a.py  \n"
    assert record.tidied(said, tmp_path) == "in x.log and autotune/autotune/a.py\n"
