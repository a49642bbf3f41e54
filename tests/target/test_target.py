import pickle
from threading import Thread

import pytest

from autotune.errors import TargetError
from autotune.target import Limits, Target, cuda

FORMS = [
    # Strings TVM wrote into its logs from 2018 to 2025, and what they mean.
    ("cuda", "cuda", "unknown", ("cuda", "gpu")),
    ("cuda -model=titanx", "cuda", "titanx", ("cuda", "gpu")),
    (
        "cuda -keys=cuda,gpu -max_num_threads=1024 -model=unknown",
        "cuda",
        "unknown",
        ("cuda", "gpu"),
    ),
    ("nvidia/geforce-rtx-3070", "cuda", "nvidia/geforce-rtx-3070", ("cuda", "gpu")),
    (
        "llvm -device=arm_cpu -model=rk3399 -target=aarch64-linux-gnu",
        "llvm",
        "rk3399",
        ("arm_cpu", "cpu"),
    ),
    ('{"kind": "cuda", "arch": "sm_80"}', "cuda", "unknown", ("cuda", "gpu")),
]


@pytest.mark.parametrize(("text", "kind", "model", "keys"), FORMS)
def test_every_form_in_old_logs_is_read(text, kind, model, keys):
    target = Target(text)
    assert (target.kind, target.kind.name, target.model, target.keys) == (kind, kind, model, keys)


@pytest.mark.parametrize("text", [form[0] for form in FORMS])
def test_printing_and_parsing_are_inverse(text):
    assert Target(str(Target(text))) == Target(text)


def test_the_text_is_the_one_tvm_writes():
    text = "cuda -keys=cuda,gpu -arch=sm_90 -max_num_threads=1024 -thread_warp_size=32"
    assert str(Target(text)) == text


def test_the_old_target_option_is_renamed_as_tvm_did():
    assert Target("llvm -target=aarch64").attrs["mtriple"] == "aarch64"


def test_a_target_survives_pickling_with_its_host():
    target = Target("cuda -arch=sm_90", host="llvm")
    again = pickle.loads(pickle.dumps(target))
    assert again == target
    assert again.host == Target("llvm")


def test_with_statements_nest_and_unwind():
    with Target("cuda") as outer:
        with Target("llvm") as inner:
            assert Target.current() == inner
        assert Target.current() == outer
    assert Target.current() is None


def test_a_thread_does_not_see_the_target_of_another():
    seen = []
    with Target("cuda"):
        thread = Thread(target=lambda: seen.append(Target.current()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_no_current_target_is_an_error_that_tells_what_to_do():
    with pytest.raises(TargetError, match="wrap the call in `with Target"):
        Target.current(allow_none=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu", "unknown kind 'gpu'; did you mean 'cuda'.; kernels are built for c, cuda, llvm"),
        ("CPU", "unknown kind 'CPU'; did you mean 'llvm'.; kernels are built for"),
        ("", "got an empty string"),
        ("cuda arch", "expected -key=value"),
        ("{broken", "not valid JSON"),
        ("cuda -emulat", "unknown option -emulat; did you mean -emulate"),
        ("cuda -arhc=sm_90", "unknown option -arhc; did you mean -arch"),
        ("cuda -arch", "-arch needs a value"),
        (3, "expected a text such as 'cuda -arch=sm_90'"),
    ],
)
def test_a_malformed_target_is_refused_by_name(text, message):
    with pytest.raises(TargetError, match=message):
        Target(text)


def test_kernels_for_foreign_kinds_are_refused_when_built_not_when_read():
    target = Target("opencl -device=mali")
    with pytest.raises(TargetError, match="cannot be built for target kind 'opencl'"):
        _ = target.language


def test_llvm_is_the_c_backend_under_its_old_name():
    assert Target("llvm").language == Target("c").language == "c"


def test_an_architecture_brings_its_shared_memory():
    assert Target("cuda -arch=sm_90a").limits.shared_bytes_optin == 227 * 1024
    assert Target("cuda -arch=sm_86").limits.shared_bytes_optin == 99 * 1024


def test_limits_default_to_what_every_device_has():
    assert Limits().shared_bytes == 48 * 1024


def test_cuda_builds_a_target_from_model_and_arch():
    assert str(cuda("h200", "sm_90")) == "cuda -keys=cuda,gpu -arch=sm_90 -model=h200"


def test_emulation_is_an_option():
    assert Target("cuda -emulate").emulate
    assert not Target("cuda").emulate
