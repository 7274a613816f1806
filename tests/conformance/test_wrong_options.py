"""Options of wrong types, of every operation of the database: a drawn share of the calls, and all of them."""

from __future__ import annotations

import random

import pytest
from database import entries
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch import webgpu
from wrong_options import run_all

NAMES = sorted(entries())
DEVICES = ["cpu", *(["webgpu"] if webgpu.is_available() else [])]
#: calls of each entry that the quick run draws
SHARE = 6


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(NAMES), st.sampled_from(DEVICES), st.integers(0, 2**32))
def test_some(name: str, device: str, seed: int) -> None:
    source = random.Random(seed)
    outcome = run_all([name], device, lambda cases: source.sample(cases, min(SHARE, len(cases))))
    assert not outcome.silent, outcome.silent
    assert not outcome.refused, outcome.refused


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_all() -> None:
    outcome = run_all(NAMES, "cpu")
    assert outcome.calls > 20_000
    assert not outcome.silent, outcome.silent
    assert not outcome.refused, outcome.refused
    assert len(outcome.other) <= 0.03 * outcome.refusals, outcome.other
