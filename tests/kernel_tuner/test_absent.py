"""Names of Kernel Tuner that are not here: scripts import them, and are told why at their use."""

import importlib

import pytest

from autotune.errors import TunerError
from autotune.kernel_tuner.accuracy import Tunable
from autotune.kernel_tuner.nvml import get_idle_power


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        ("observers.ncu", "NCUObserver", "run ncu on a program that calls the kernel"),
        ("observers.pmt", "PMTObserver", r"observers\.nvml\.NVMLObserver"),
        ("observers.tegra", "TegraObserver", r"observers\.nvml\.NVMLObserver"),
        ("utils.directives", "process_directives", "directives of OpenACC and OpenMP"),
        ("strategies.wrapper", "OptAlgWrapper", r"subclass of autotune\.tuner\.Tuner"),
        ("energy", "energy", "NVMLObserver"),
        ("", "tune_kernel_T1", r"autotune\.interchange\.read_t1"),
        ("core", "DeviceInterface", r"autotune\.build"),
        ("searchspace", "Searchspace", "without a list of all configurations"),
    ],
)
def test_what_is_not_here_is_imported_and_explained_at_its_use(module, name, words):
    lines = f"from {'.'.join(filter(None, ('autotune.kernel_tuner', module)))} import {name}"
    held: dict[str, object] = {}
    exec(lines, held)
    with pytest.raises(ImportError, match=words):
        held[name]()


def test_an_import_that_a_script_guards_fails():
    try:
        import autotune.kernel_tuner.observers.powersensor as observer
    except ImportError as error:
        observer = str(error)
    assert "is not here" in str(observer)
    assert importlib.util.find_spec("autotune.kernel_tuner.hyper") is None


def test_what_is_refused_says_what_to_do():
    with pytest.raises(TunerError, match="a function of a knob"):
        Tunable("layout", {"c": [1]})
    with pytest.raises(TunerError, match="nvidia-smi"):
        get_idle_power(0)
