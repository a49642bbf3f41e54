"""Which record is the best: times of trials, and races that say more than they do."""

from autotune.record import best_of, compact, is_race, load_from_file, write_log
from tests.record.records import failed, good, make_config, make_input


def pair(index, cost, beaten=None, passed_over=()):
    race = {"candidates": [{"index": i} for i in beaten or ()], "passed_over": list(passed_over)}
    inp = make_input("t", (1,), "llvm", make_config(index, k=index))
    return inp, good(cost, **({"race": race} if beaten else {}))


def best_index(pairs):
    return best_of(pairs)[0].config.index


def test_without_a_race_the_fastest_is_the_best():
    assert best_index([pair(0, 2.0), pair(1, 1.0), pair(2, 1.5)]) == 1
    assert best_of([(pair(0, 1.0)[0], failed(4))]) is None
    assert best_of([]) is None


def test_a_race_stands_above_the_times_of_those_it_was_held_with_in_any_order():
    lucky, winner = pair(0, 1.0), pair(1, 1.2, beaten=[0, 1])
    for records in ([lucky, winner], [winner, lucky]):
        assert best_index(records) == 1
        assert is_race(best_of(records)[1])
    assert best_index([pair(1, 1.2, beaten=[1], passed_over=[0]), lucky]) == 1


def test_what_did_not_race_is_compared_by_its_time():
    race = pair(1, 1.2, beaten=[0, 1])
    assert best_index([race, pair(2, 1.1)]) == 2
    assert best_index([race, pair(2, 1.3)]) == 1
    assert not is_race(best_of([race, pair(2, 1.1)])[1])


def test_of_two_races_the_later_counts():
    first, second = pair(0, 1.0, beaten=[0, 1]), pair(1, 1.1, beaten=[0, 1])
    assert best_index([first, second]) == 1
    assert best_index([second, first]) == 0


def test_compacting_keeps_who_won(tmp_path):
    log = tmp_path / "x.log"
    write_log(log, [pair(1, 1.1), pair(0, 1.0), pair(1, 1.2, beaten=[0, 1])])
    compact(log)
    assert best_index(load_from_file(log)) == 1
