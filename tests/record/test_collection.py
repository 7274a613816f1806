"""Garbage is not collected while plans are made, and is as before after them, whatever happens inside."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import webgpu_torch as torch
from webgpu_torch_core.backend.collection import without_collection
from webgpu_torch_core.record import plans
from webgpu_torch_core.scheduling import schedule


@pytest.mark.parametrize("enabled", [True, False])
def test_collecting_is_as_before_whatever_happens_inside(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        assert without_collection(gc.isenabled) is False
        assert gc.isenabled() is enabled
        with pytest.raises(ZeroDivisionError):
            without_collection(lambda: 1 // 0)
        assert gc.isenabled() is enabled
        assert without_collection(lambda: without_collection(gc.isenabled)) is False
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_no_collection_takes_place_while_a_plan_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []

    def scheduled(*arguments: Any) -> Any:
        found.append(gc.isenabled())
        return schedule(*arguments)

    monkeypatch.setattr(plans, "schedule", scheduled)
    assert gc.isenabled()
    (torch.linspace(0, 1, 97).sin() @ torch.ones(97, 97)).tolist()
    assert found
    assert not any(found)
    assert gc.isenabled()
