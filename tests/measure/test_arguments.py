import pytest

from autotune.errors import MeasureError
from autotune.measure import LocalBuilder, LocalRunner, measure_option


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: LocalRunner(timeout="x"),
            "timeout must be positive seconds, got 'x'",
        ),
        (lambda: LocalRunner(timeout=0), "timeout must be positive seconds, got 0"),
        (lambda: LocalRunner(number="a"), "number must be a whole number of at least 1, got 'a'"),
        (lambda: LocalRunner(repeat=0), "repeat must be a whole number of at least 1, got 0"),
        (lambda: LocalRunner(min_repeat_ms=-1), "min_repeat_ms must be a number of at least 0"),
        (lambda: LocalRunner(cooldown_interval=None), "cooldown_interval must be a number"),
        (lambda: LocalBuilder(timeout=None), "LocalBuilder: timeout must be positive seconds"),
        (lambda: LocalBuilder(n_parallel=1.5), "n_parallel must be a whole number of at least 1"),
        (lambda: measure_option(1, "local"), "builder must be an object or 'local', got 1"),
        (lambda: measure_option("local", "remote"), "runner must be an object or 'local'"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(make, message):
    with pytest.raises(MeasureError, match=message):
        make()
