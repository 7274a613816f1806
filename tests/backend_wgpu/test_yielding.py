"""Threads give the interpreter up sooner as long as pipelines are compiled beside them."""

from __future__ import annotations

import sys

from webgpu_torch_backend_wgpu.gpu.yielding import Yielding


def test_the_interpreter_is_given_up_sooner_until_the_last_has_ended() -> None:
    usual, yielding = sys.getswitchinterval(), Yielding()
    for wanted in range(3):
        yielding.begin()
        assert sys.getswitchinterval() < usual, wanted
    for _ in range(2):
        yielding.end()
        assert sys.getswitchinterval() < usual
    yielding.end()
    assert sys.getswitchinterval() == usual


def test_what_a_program_set_for_itself_stays() -> None:
    usual, yielding = sys.getswitchinterval(), Yielding()
    sys.setswitchinterval(1e-5)
    try:
        yielding.begin()
        assert abs(sys.getswitchinterval() - 1e-5) < 1e-6
        yielding.end()
        assert abs(sys.getswitchinterval() - 1e-5) < 1e-6
        yielding.begin()
        sys.setswitchinterval(1e-3)
        yielding.end()
        assert abs(sys.getswitchinterval() - 1e-3) < 1e-6
    finally:
        sys.setswitchinterval(usual)
