"""Garbage is not collected while plans are made, and is as before after them, whatever happens inside."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
import webgpu_torch as torch
from webgpu_torch_core.backend.collection import collection_postponed
from webgpu_torch_core.record import engine
from webgpu_torch_core.scheduling import schedule


@pytest.mark.parametrize("enabled", [True, False])
def test_threads_postpone_together(enabled: bool) -> None:
    before = gc.isenabled()
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with collection_postponed:
            inside.set()
            leave.wait()

    try:
        (gc.enable if enabled else gc.disable)()
        thread = threading.Thread(target=other)
        with collection_postponed:
            assert not gc.isenabled()
            thread.start()
            inside.wait()
        assert not gc.isenabled()
        leave.set()
        thread.join()
        assert gc.isenabled() is enabled
        with pytest.raises(ZeroDivisionError), collection_postponed:
            raise ZeroDivisionError
        assert gc.isenabled() is enabled
    finally:
        leave.set()
        (gc.enable if before else gc.disable)()


def test_no_collection_takes_place_while_a_plan_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []

    def scheduled(*arguments: Any) -> Any:
        found.append(gc.isenabled())
        return schedule(*arguments)

    monkeypatch.setattr(engine, "schedule", scheduled)
    assert gc.isenabled()
    (torch.linspace(0, 1, 97).sin() @ torch.ones(97, 97)).tolist()
    assert found
    assert not any(found)
    assert gc.isenabled()
