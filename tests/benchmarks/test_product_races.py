"""Races of kernels of one product: what is subtracted from their times."""

from types import SimpleNamespace

from benchmarks import product_races


def test_what_runs_before_each_kernel_does_not_count(monkeypatch):
    ran, taken = [], {"library": 5.0, "ours": 7.0, "before": 30.0}

    class Replays:
        def __init__(self, run):
            ran.clear()
            run()
            self.names = tuple(ran)

        def microseconds(self):
            return sum(taken[name] for name in self.names)

    def contender(name):
        return lambda: ran.append(name)

    loaded = SimpleNamespace(run=contender("ours"), unload=lambda: None)
    monkeypatch.setattr(product_races, "Replays", Replays)
    monkeypatch.setattr(product_races, "verified", lambda *_: [({"split": 1}, loaded, {})])
    plans = [({"split": 1}, None, None)]
    for before in (None, contender("before")):
        found = product_races.in_turns("1023", (), None, 0.0, plans, contender("library"), before)
        assert (found["cublas"], found["untuned"]) == (5.0, 7.0)
