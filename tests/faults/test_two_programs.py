"""Two programs tune on one device at once, and are killed over it: no two trials at a time."""

import time

import pytest

from tests.forked import Script, forkserver_with

SPACE, KILLS = 12, 1

# A kernel that records when it runs; every process of a trial is one of `program`'s. Where the
# programs do not exclude each other it waits for the first of the other's.
SCRIPT = """
    import sys
    import autotune.task as at
    from autotune.kernel import SourceKernel, arg
    from autotune.measure import LocalBuilder, LocalRunner, measure_option
    from autotune.tuner import RandomTuner
    from autotune.tuner.callback import log_to_file

    program, folder, space, exclusive = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    CODE = '''
    #include <fcntl.h>
    #include <stdio.h>
    #include <time.h>
    #include <unistd.h>
    static double now(void) {
      struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec;
    }
    void f(const float *x, float *y) {
      double begin = now();
      close(open(MINE, O_WRONLY | O_CREAT, 0600));
      for (int i = 0; i < 30000 && TOGETHER && access(THEIRS, F_OK); i++) usleep(1000);
      usleep(2000 + KNOB);
      *y = 2 * *x;
      char text[100];
      int n = sprintf(text, "%s %d %.9f %.9f\\\\n", PROGRAM, getpid(), begin, now());
      int out = open(SPANS, O_WRONLY | O_APPEND | O_CREAT, 0600);
      if (write(out, text, n) != n) *y = 0;
      close(out);
    }'''

    @at.template("tests/two_programs")
    def two_programs():
        config = at.get_config()
        config.define_knob("knob", list(range(space)))
        return SourceKernel(
            "f", CODE,
            defines={
                "KNOB": config["knob"].val,
                "PROGRAM": f'"{program}"',
                "SPANS": f'"{folder}/spans"',
                "MINE": f'"{folder}/{program}.begun"',
                "THEIRS": f'"{folder}/{others[program]}.begun"',
                "TOGETHER": int(exclusive == "no"),
            },
            args=[arg("x", (1,)), arg("y", (1,), role="out")], reference=lambda x: 2 * x,
        )

    others = {"lasting": "killed", "killed": "lasting"}
    log = f"{folder}/{program}.log"
    task = at.create("tests/two_programs", (), target="c")
    runner = LocalRunner(
        number=1, repeat=3, cooldown_interval=0, timeout=60, exclusive=exclusive == "yes"
    )
    option = measure_option(LocalBuilder(n_parallel=1, timeout=60), runner)
    RandomTuner(task, seed=0).tune(
        space, option, callbacks=[log_to_file(log)], resume=log, finalists=2
    )
"""


@pytest.fixture(scope="module", autouse=True)
def _forkserver():
    with forkserver_with():
        yield


def trials(folder):
    """Returns from when to when each process of a trial ran its kernel, and whose it was."""
    spans = {}
    for line in (folder / "spans").read_text().splitlines():
        program, pid, begin, end = line.split()
        known = spans.get((program, pid), (float(begin), float(end)))
        spans[program, pid] = min(known[0], float(begin)), max(known[1], float(end))
    return sorted((begin, end, key[0]) for key, (begin, end) in spans.items())


def overlaps(folder):
    found, last = 0, 0.0
    for begin, end, _ in trials(folder):
        found += begin < last
        last = max(last, end)
    return found


def rows(folder, program):
    log = folder / f"{program}.log"
    return log.read_text().count("\n") if log.exists() else 0


def run(folder, exclusive, kills):
    """Tune in two programs; one is killed and started again so many times."""
    with Script(SCRIPT, "lasting", folder, SPACE, exclusive) as lasting:
        for _ in range(kills):
            enough = rows(folder, "killed") + 3
            with Script(SCRIPT, "killed", folder, SPACE, exclusive) as killed:
                while rows(folder, "killed") < enough and killed.poll() is None:
                    time.sleep(0.005)
                killed.kill()
        with Script(SCRIPT, "killed", folder, SPACE, exclusive) as again:
            assert again.wait(60) == 0
        assert lasting.wait(60) == 0


def test_intervals_of_timing_never_overlap_though_one_program_is_killed(tmp_path):
    run(tmp_path, "yes", KILLS)
    assert overlaps(tmp_path) == 0
    assert {program for *_, program in trials(tmp_path)} == {"lasting", "killed"}
    assert min(rows(tmp_path, "lasting"), rows(tmp_path, "killed")) >= SPACE


def test_without_the_lock_they_do(tmp_path):
    run(tmp_path, "no", 0)
    assert overlaps(tmp_path) > 0
