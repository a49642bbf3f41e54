"""One budget for many tasks: who gets the rounds, what is printed, logged, resumed and raced."""

import math
import re

import pytest

from autotune.auto_scheduler import (
    EmptyPolicy,
    HardwareParams,
    LocalBuilder,
    LocalRunner,
    LogEstimatedLatency,
    PrintTableInfo,
    RecordReader,
    RecordToFile,
    SearchTask,
    SketchPolicy,
    TaskScheduler,
    TaskSchedulerCallback,
    TuningOptions,
    XGBModel,
)
from autotune.auto_scheduler.task_scheduler.allocation import Gradient, RoundRobin, group_of
from autotune.auto_scheduler.task_scheduler.progress import TaskProgress
from autotune.errors import AutotuneError, RecordError
from autotune.measure import MeasureInput, MeasureResult
from tests.auto_scheduler.stated import Nothing, Stated

pytestmark = pytest.mark.usefixtures("quick_searches", "own_workloads")


@pytest.fixture(autouse=True)
def unraced(monkeypatch):
    """No trial is close enough to the best for a race, which takes longer than the trials."""
    monkeypatch.setattr("autotune.tuner.loop.finalists.CLOSE", 0.0)


def products(*sizes):
    return [SearchTask(func="matmul", args=(n, n, n), target="c", desc=f"n{n}") for n in sizes]


def options(trials, *callbacks, per_round=3, **more):
    return TuningOptions(
        num_measure_trials=trials,
        num_measures_per_round=per_round,
        builder=Nothing(n_parallel=1),
        runner=Stated(),
        measure_callbacks=callbacks,
        verbose=0,
        **more,
    )


def measured(trials, *callbacks, per_round):
    """Options by which states are built and run."""
    option = options(trials, *callbacks, per_round=per_round)
    local = {"builder": LocalBuilder(n_parallel=1)}
    local["runner"] = LocalRunner(number=1, repeat=1, timeout=60)
    return TuningOptions(**{**vars(option), **local})


class Watch(TaskSchedulerCallback):
    def __init__(self):
        self.began, self.ended = [], []

    def pre_tune(self, task_scheduler, task_id):
        self.began.append(task_id)

    def post_tune(self, task_scheduler, task_id):
        self.ended.append(task_id)


def rows_by_task(log):
    counts = {}
    for inp, _ in RecordReader(log):
        counts[inp.task.workload_key] = counts.get(inp.task.workload_key, 0) + 1
    return counts


def test_round_robin_gives_each_task_the_same_and_a_log_is_gone_on_with(tmp_path):
    log, tasks = tmp_path / "net.json", products(4, 6)
    watch = Watch()
    scheduler = TaskScheduler(tasks, strategy="round-robin", callbacks=[watch])
    scheduler.tune(options(12, RecordToFile(log)))
    assert scheduler.ct == 12
    assert scheduler.task_cts == [2, 2]
    assert rows_by_task(log) == {task.workload_key: 6 for task in tasks}
    assert sorted(watch.began) == sorted(watch.ended) == [0, 0, 1, 1]
    assert all(map(math.isfinite, scheduler.best_costs))
    assert scheduler.cur_score == pytest.approx(sum(scheduler.best_costs))

    again = TaskScheduler(tasks, strategy="round-robin", load_log_file=log, callbacks=[])
    again.tune(options(18, RecordToFile(log)))
    assert again.ct == 18
    assert rows_by_task(log) == {task.workload_key: 9 for task in tasks}
    keys = [(inp.task.workload_key, inp.key) for inp, _ in RecordReader(log)]
    assert len(set(keys)) == len(keys), "what the log holds is not measured again"


def test_a_run_that_the_log_already_holds_measures_nothing_and_says_so(tmp_path, caplog):
    log, tasks = tmp_path / "net.json", products(4)
    TaskScheduler(tasks, callbacks=[]).tune(options(4, RecordToFile(log), per_round=2))
    before = log.read_bytes()
    TaskScheduler(tasks, load_log_file=log, callbacks=[]).tune(options(4, RecordToFile(log)))
    assert "holds 4 trials, and num_measure_trials=4 counts these" in caplog.text
    assert [row for row in log.read_bytes().splitlines() if row[:1] != b"#"] == [
        row for row in before.splitlines() if row[:1] != b"#"
    ]


def test_the_gradient_spends_all_it_can_on_the_task_that_the_objective_sees(tmp_path):
    log, tasks = tmp_path / "net.json", products(4, 6)
    scheduler = TaskScheduler(tasks, objective_func=lambda costs: costs[0], callbacks=[])
    scheduler.tune(options(10, RecordToFile(log), per_round=1))
    assert rows_by_task(log) == {tasks[0].workload_key: 9, tasks[1].workload_key: 1}


def test_a_task_with_nothing_left_to_try_gets_no_more():
    tasks = products(4, 6)

    class Once(EmptyPolicy):
        def propose(self, count):
            return super().propose(count) if not self.measured else []

    policies = [Once(tasks[0]), SketchPolicy(tasks[1], XGBModel(), seed=0)]
    scheduler = TaskScheduler(tasks, strategy="round-robin", callbacks=[])
    scheduler.tune(options(9, per_round=2), search_policy=policies)
    assert scheduler.dead_tasks == {0}
    assert scheduler.progress[0].trials == 1
    assert scheduler.progress[1].trials == 8
    assert scheduler.progress[0].finished == "nothing is left to try"


def test_a_task_in_which_nothing_works_is_given_up_and_explained(caplog):
    tasks = products(13)  # of a size that no test has left in the cache of builds
    option = TuningOptions(
        num_measure_trials=40,
        num_measures_per_round=4,
        builder=LocalBuilder(n_parallel=1, timeout=1e-3),
        runner=LocalRunner(number=1, repeat=1),
        verbose=0,
    )
    scheduler = TaskScheduler(tasks, callbacks=[])
    scheduler.tune(option, search_policy=[SketchPolicy(tasks[0], XGBModel(), seed=0)])
    (only,) = scheduler.progress
    assert only.trials == 8
    assert "no kernel worked in 8 trials" in only.finished
    assert scheduler.best_costs == [math.inf]
    assert scheduler.cur_score == math.inf
    assert "Could not find any valid schedule" in caplog.text


def test_a_task_that_has_no_program_within_the_limits_is_explained(caplog):
    none = HardwareParams(max_threads_per_block=0, target="cuda")
    task = SearchTask(
        func="matmul", args=(16, 16, 16), target="cuda -emulate", hardware_params=none
    )
    TaskScheduler([task], callbacks=[]).tune(options(2))
    assert "no program of it was found that keeps the limits" in caplog.text


def test_a_task_without_progress_and_a_network_without_progress_end_early():
    scheduler = TaskScheduler(products(4, 6), callbacks=[])
    scheduler.tune(options(400, per_round=2), per_task_early_stopping=4)
    assert scheduler.ct < 400
    assert scheduler.dead_tasks == {0, 1}
    scheduler = TaskScheduler(products(4, 6), callbacks=[])
    scheduler.tune(options(400, per_round=2, early_stopping=6))
    assert scheduler.ct < 400
    assert not scheduler.dead_tasks


def test_an_interrupt_leaves_a_complete_log_and_nothing_under_way(tmp_path):
    log, tasks = tmp_path / "net.json", products(4, 6)

    class Interrupt(TaskSchedulerCallback):
        def post_tune(self, task_scheduler, task_id):
            if task_scheduler.ct >= 4:
                raise KeyboardInterrupt

    scheduler = TaskScheduler(tasks, callbacks=[Interrupt()])
    with pytest.raises(KeyboardInterrupt):
        scheduler.tune(measured(40, RecordToFile(log), per_round=2))
    rows = rows_by_task(log)
    assert sum(rows.values()) >= scheduler.ct >= 4
    assert all(result.error_no == 0 for _, result in RecordReader(log))
    again = TaskScheduler(tasks, load_log_file=log, callbacks=[])
    again.tune(options(sum(rows.values()) + 4, RecordToFile(log), per_round=2))
    assert again.ct == sum(rows.values()) + 4


def test_the_best_of_each_task_are_raced_and_the_log_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "autotune.tuner.loop.finalists.CLOSE", 1e9
    )  # on a busy host nothing is close
    log = tmp_path / "net.json"
    TaskScheduler(products(16), callbacks=[]).tune(measured(8, RecordToFile(log), per_round=4))
    assert "# race " in log.read_text("utf-8")


def test_the_table_is_the_one_of_tvm(capsys, tmp_path):
    tasks = products(4, 6)
    scheduler = TaskScheduler(
        tasks,
        [1, 2],
        callbacks=[PrintTableInfo(), LogEstimatedLatency(tmp_path / "total_latency.tsv")],
    )
    option = options(4, per_round=2)
    scheduler.tune(TuningOptions(**{**vars(option), "verbose": 1}))
    text = capsys.readouterr().out
    line = "-" * 113
    assert f"{'-' * 70}\n{'-' * 30}  [ Task Scheduler ]\n{'-' * 70}\n" in text
    title = (
        "|  ID  |                       Task Description                        "
        "| Latency (ms) | Speed (GFLOPS) | Trials |"
    )
    assert f"{title}\n{line}\n" in text
    first = text.index(line) + len(line) + 1
    assert text[first:].startswith(f"|    0 | {'n4':>61} | {'-':>12} | {'-':>14} | {0:>6} |\n")
    assert "Estimated total latency: - ms\tTrials: 0\tUsed time : 0 s\tNext ID: 0\t" in text
    last = text.splitlines()[-1]
    assert re.fullmatch(
        r"Estimated total latency: \d+\.\d{3} ms\tTrials: 4\tUsed time : \d+ s\tNext ID: -\t", last
    )
    rows = (tmp_path / "total_latency.tsv").read_text("utf-8").splitlines()
    assert len(rows) == 2
    assert rows[0].split("\t")[2:4] == ["EstimatedLatency(ms)", "N/A"]
    total = scheduler.best_costs[0] + 2 * scheduler.best_costs[1]
    assert scheduler.cur_score == pytest.approx(total)


def test_a_file_of_the_latency_that_stands_there_is_kept(tmp_path):
    path = tmp_path / "total_latency.tsv"
    path.write_text("mine\n")
    scheduler = TaskScheduler(products(4), callbacks=[LogEstimatedLatency(path)])
    scheduler.tune(options(2, per_round=2))
    assert path.read_text("utf-8").startswith("mine\nElapsedTime(s)\t")


def test_a_file_of_the_latency_may_be_in_a_folder_that_is_not_there_yet(tmp_path):
    path = tmp_path / "logs/net/latency.tsv"
    scheduler = TaskScheduler(products(4), callbacks=[LogEstimatedLatency(path)])
    scheduler.tune(options(2, per_round=2))
    assert path.read_text("utf-8").startswith("ElapsedTime(s)\t")


def test_a_model_is_kept_in_a_file(tmp_path):
    file, tasks = tmp_path / "model.json", products(4)
    TaskScheduler(tasks, load_model_file=file, callbacks=[]).tune(options(4, per_round=2))
    model = XGBModel()
    model.load(file)
    assert len(model.trials(tasks[0])) == 4
    model.load(file)
    assert len(model.trials(tasks[0])) == 4, "what is known is not learned twice"
    TaskScheduler(tasks, load_model_file=file, callbacks=[]).tune(options(4, per_round=2))
    model = XGBModel()
    model.load(file)
    assert len(model.trials(tasks[0])) > 4


@pytest.mark.parametrize(
    "text",
    ["", "binf", "{}", "[1]", '{"form": "x", "tasks": []}', "[" * 100000]
    + [
        '{"form": "autotune search trials 1", "tasks": [{"workload_key": "k", "target": "c", '
        f'"states": [{state}]}}]}}'
        for state in ('[[["SP"]], 1.0]', "[[], -1.0]", "[[], true]", "[5, 1.0]", "[[], 1e999]")
    ],
)
def test_what_is_no_model_is_refused(tmp_path, text):
    file = tmp_path / "model.json"
    file.write_text(text)
    with pytest.raises(RecordError, match="update_from_file"):
        XGBModel().load(file)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tasks": []}, "one SearchTask or more"),
        ({"tasks": [1]}, "one SearchTask or more"),
        ({"task_weights": [1]}, "weight for each of 2"),
        ({"task_weights": [1, -1]}, "positive weight"),
        ({"strategy": "best"}, "strategy must be one of"),
    ],
)
def test_bad_arguments_are_refused(arguments, words):
    with pytest.raises(AutotuneError, match=words):
        TaskScheduler(**{"tasks": products(4, 6), **arguments})


@pytest.mark.parametrize("returned", [None, "fast", float("nan")])
def test_an_objective_that_returns_no_number_is_named(returned):
    scheduler = TaskScheduler(products(4), objective_func=lambda _: returned, callbacks=[])
    with pytest.raises(AutotuneError, match="objective_func returned no number"):
        scheduler.tune(options(2, per_round=2))


def test_a_budget_too_small_and_an_unknown_policy_are_refused():
    scheduler = TaskScheduler(products(4, 6, 8), callbacks=[])
    with pytest.raises(AutotuneError, match="It should be at least 3 for this model"):
        scheduler.tune(options(2))
    with pytest.raises(AutotuneError, match="search_policy must be one of"):
        scheduler.tune(options(6), search_policy="sketch.best")
    with pytest.raises(AutotuneError, match="a policy for each of 3"):
        scheduler.tune(options(6), search_policy=[])


# ---- allocation, by itself


def progress(task, history, spent_s=1.0):
    state = TaskProgress(EmptyPolicy(task), 1.0)
    for seconds in history:
        good = MeasureResult((seconds,), 0, 1.0, 0.0)
        state.add([(MeasureInput(task.target, task, None), good)], spent_s)
    return state


def total(costs):
    return sum(costs)


def test_the_gradient_prefers_the_slower_the_less_tried_and_the_cheaper():
    slow, fast = products(32, 16)
    rule = Gradient(total)
    assert rule.choose([progress(slow, [1e-3]), progress(fast, [1e-4])], [0, 1]) == 0
    assert rule.choose([progress(slow, [1e-3] * 40), progress(fast, [1e-4])], [0, 1]) == 1
    dear, cheap = progress(slow, [1e-3], 10.0), progress(fast, [1e-3], 1.0)
    assert rule.choose([dear, cheap], [0, 1]) == 1
    assert rule.choose([dear, cheap], [0]) == 0


def test_a_task_that_was_never_tried_comes_first_and_one_without_weight_last():
    a, b = products(8, 16)
    tried, fresh = progress(a, [1e-3]), progress(b, [])
    assert Gradient(total).choose([tried, fresh], [0, 1]) == 1
    assert RoundRobin().choose([tried, fresh], [0, 1]) == 1
    ignores = Gradient(lambda costs: costs[0])
    assert ignores.worth([tried, progress(b, [1.0])], 1) == 0.0


def test_a_task_whose_log_has_less_than_a_round_is_worth_as_much_as_a_new_one():
    a, b = products(8, 16)
    recalled, tried = progress(a, []), progress(b, [1e-3])
    recalled.recall([1e-3, math.inf], per_round=10)
    assert recalled.rounds == 0
    assert Gradient(total).worth([recalled, tried], 0) == math.inf
    assert Gradient(total).choose([tried, recalled], [0, 1]) == 1


def test_similar_tasks_show_what_is_possible():
    a, b = products(64, 65)
    assert group_of(a) == group_of(b) != group_of(products(8)[0])
    rule = Gradient(total)
    alone = rule.expected([progress(a, [1e-3] * 9)], 0)
    beside = rule.expected([progress(a, [1e-3] * 9), progress(b, [1e-5] * 9)], 0)
    assert beside > 5 * alone
    # ... unless it had many rounds more than they, and stayed far behind.
    stays = rule.expected([progress(a, [1e-3] * 9), progress(b, [1e-5])], 0)
    assert stays == pytest.approx(alone)


def test_costs_may_be_set_before_anything_is_measured(tmp_path):
    class Costs(TaskSchedulerCallback):
        def __init__(self):
            self.seen = []

        def post_tune(self, task_scheduler, task_id):
            self.seen.append(task_scheduler.best_costs)

    costs = Costs()
    scheduler = TaskScheduler(products(4, 6), callbacks=[costs])
    assert scheduler.best_costs == [math.inf, math.inf]
    scheduler.best_costs = [1e2, 1e-12]
    scheduler.tune(options(6, RecordToFile(tmp_path / "net.json")))
    assert costs.seen[-1][0] < 1e2
    assert all(each[1] == 1e-12 for each in costs.seen)
    with pytest.raises(AutotuneError, match="best_costs: expected 2"):
        scheduler.best_costs = [1.0]
