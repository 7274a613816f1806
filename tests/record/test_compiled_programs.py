"""Programs drawn at random, each run compiled and uncompiled: results, buffers, gradients and types agree at every step."""

from __future__ import annotations

import pytest
from compiled_programs import ACTIONS, CALLS, Step, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["call", "step"]), st.integers(0, 2)),
        st.tuples(st.sampled_from([*CALLS, *(f"{each} in a thread" for each in CALLS)]), st.integers(0, 2)),
        st.tuples(st.sampled_from(sorted(ACTIONS)), st.integers(0, 9)),
    ),
    min_size=3,
    max_size=14,
)
#: Results that need gradients are not replayed, and a warning says so.
pytestmark = pytest.mark.filterwarnings("ignore:torch.compile")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_programs(program: list[Step]) -> None:
    run("cpu", program)


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_programs_on_webgpu(program: list[Step]) -> None:
    run("webgpu", program)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("device", ["cpu", "webgpu"])
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=steps)
def test_thousands_of_programs(device: str, part: int, program: list[Step]) -> None:
    """Parts draw programs of their own and differ in nothing else: minutes each, side by side in processes of tests."""
    run(device, program)
