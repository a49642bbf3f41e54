"""Which configuration a template gets from the contexts around it."""

import contextvars
import logging
import threading

import pytest

from autotune.target import Target
from autotune.task import (
    GLOBAL_SCOPE,
    ApplyConfig,
    ApplyFixedConfig,
    DispatchContext,
    FallbackConfigEntity,
    FallbackContext,
    create,
    get_config,
)
from tests.task.test_templates import config_of, make_scale

pytestmark = pytest.mark.usefixtures("own_registry")


def test_a_direct_call_takes_the_configuration_of_the_contexts_around_it():
    scale = make_scale()
    with ApplyConfig(config_of(tile=[-1, 8], vec=4)):
        assert scale(16).defines == {"TILE": 8, "VEC": 4}
        with ApplyConfig(config_of(tile=[-1, 2], vec=1)):
            assert scale(16).defines["TILE"] == 2
        assert scale(16).defines["TILE"] == 8


def test_without_a_configuration_a_fallback_is_used_and_said_once(caplog):
    scale = make_scale()
    with caplog.at_level(logging.WARNING, "autotvm"), Target("llvm"):
        assert scale(16).defines == {"TILE": 1, "VEC": 1}
        scale(16)
        scale(n=16)
        scale(32)
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert texts[0].startswith(
        "Cannot find config for target=llvm -keys=cpu, workload=('test.scale', 16). A fallback "
        "configuration is used, which may bring great performance regression."
    )


def test_silence_hides_the_warning(caplog, monkeypatch):
    scale = make_scale()
    monkeypatch.setattr(GLOBAL_SCOPE, "silent", True)
    with caplog.at_level(logging.WARNING, "autotvm"):
        scale(64)
    assert not caplog.records


def test_inside_a_fallback_context_nothing_around_it_is_asked():
    scale = make_scale()
    with ApplyConfig(config_of(tile=[-1, 8], vec=4)), FallbackContext():
        assert scale(16).defines == {"TILE": 1, "VEC": 1}


def test_a_query_never_answers_nothing():
    config = DispatchContext.current.query(Target("llvm"), ("unheard.of", 1))
    assert isinstance(config, FallbackConfigEntity)
    assert DispatchContext.current.query(Target("llvm"), ("unheard.of", 1)) is config
    with FallbackContext() as context:
        context.update(Target("llvm"), ("unheard.of", 1), config_of(vec=2))
        assert context.query(Target("llvm"), ("unheard.of", 1))["vec"].val == 2


def test_get_config_outside_a_template_shares_nothing():
    first, second = get_config(), get_config()
    first.define_knob("a", [1])
    assert "a" not in second


def test_fixed_configurations_prefer_the_named_tasks():
    make_scale()
    task = create("test.scale", (16,), "llvm")
    with ApplyFixedConfig([task], "test.scale") as fixed:
        chosen = fixed.query(Target("llvm"), task.workload)
        assert (chosen.index, chosen.cost) == (0, 1e-6)
        assert fixed.query(Target("llvm"), ("unheard.of",)).is_fallback
    with ApplyFixedConfig([task], ["another"]) as fixed:
        assert fixed.query(Target("llvm"), task.workload).cost == 1e5


def test_threads_do_not_see_each_others_contexts():
    inside = {}

    def look(name):
        inside[name] = DispatchContext.current.query(None, ("t",))

    config = config_of(vec=1)
    with ApplyConfig(config):
        plain = threading.Thread(target=look, args=("plain",))
        copied = threading.Thread(target=contextvars.copy_context().run, args=(look, "copied"))
        for thread in (plain, copied):
            thread.start()
            thread.join()
    assert inside["copied"] is config
    assert inside["plain"] is not config
    assert isinstance(DispatchContext.current, FallbackContext)
