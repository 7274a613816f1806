"""Random programs of operations, views, writes and subscripts do on this library what they do on PyTorch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operation_programs import COMPLEX, LEFT_OUT, REAL, OperationProgram
from test_view_properties import cases

#: programs of each kind in the slow suite; ``WEBGPU_TORCH_TEST_PROGRAMS`` is another number
ALL = int(os.environ.get("WEBGPU_TORCH_TEST_PROGRAMS", "3000"))
STEPS = 6
SEEDS = st.integers(0, 2**40)
#: what leaves that require a gradient are made of
TRACKED = ("float32", "float64")


def run_program(
    seed: int, place: str = "cpu", kinds: tuple[str, ...] = REAL, tracked: bool = False
) -> OperationProgram:
    """Run the program of a seed, without float64 where a device has none."""
    kinds = kinds if place == "cpu" else tuple(each for each in kinds if each != "float64")
    program = OperationProgram(seed, place, kinds, tracked)
    program.run(STEPS)
    return program


@cases(120)
@given(SEEDS)
def test_programs(seed: int) -> None:
    run_program(seed)


@cases(40)
@given(SEEDS)
def test_complex_programs(seed: int) -> None:
    run_program(seed, kinds=COMPLEX)


@cases(60)
@given(SEEDS)
def test_gradients(seed: int) -> None:
    run_program(seed, kinds=TRACKED, tracked=True)


@pytest.mark.slow
@cases(ALL)
@given(SEEDS)
def test_all_programs(seed: int) -> None:
    run_program(seed)


@pytest.mark.slow
@cases(ALL)
@given(SEEDS)
def test_all_complex_programs(seed: int) -> None:
    run_program(seed, kinds=COMPLEX)


@pytest.mark.slow
@cases(ALL)
@given(SEEDS)
def test_all_gradients(seed: int) -> None:
    run_program(seed, kinds=TRACKED, tracked=True)


@pytest.mark.slow
def test_programs_on_devices(device: str) -> None:
    for seed in range(min(ALL, 400) if device != "cpu" else 0):
        run_program(seed, device)
        run_program(seed, device, COMPLEX)
        run_program(seed, device, TRACKED, tracked=True)


def test_programs_are_refused_and_rounded_now_and_then() -> None:
    programs = [run_program(seed) for seed in range(60)]
    # Both are tested, but they are not what is tested.
    assert 10 < sum(each.refused for each in programs) < 60 * STEPS // 3
    assert 1 < sum(each.inexact for each in programs) < 30


def test_what_programs_leave_out_is_published() -> None:
    page = (Path(__file__).parents[2] / "docs" / "numerics.md").read_text(encoding="utf-8")
    for what, reason in LEFT_OUT.items():
        assert f"| {what} | {reason} |" in page
