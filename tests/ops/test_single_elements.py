"""Elements read and written at positions of Python's numbers: what PyTorch computes, with kernels that do not depend on the position."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from webgpu_torch_core.record.devices import engine_for

KINDS = ("float32", "int32", "bool", "float16", "uint8", "int64")
STEPS = ("number", "other", "add", "add other", "read", "own", "product", "sum", "row")


@st.composite
def programs(draw: st.DrawFn) -> dict[str, Any]:
    size = draw(st.sampled_from((2, 3, 7)))
    count = draw(st.integers(1, 10))
    place = st.integers(0, size - 1)
    return {
        "size": size, "kind": draw(st.sampled_from(KINDS)), "tracked": draw(st.booleans()),
        "steps": [
            (draw(st.sampled_from(STEPS)), draw(st.integers(0, 2)), (draw(place), draw(place)), (draw(place), draw(place)))
            for _ in range(count)
        ],
    }  # fmt: skip


def run(library: Any, place: str, program: dict[str, Any]) -> list[Any]:
    """Return what a program reads, the tensors that it has written into, and a gradient."""
    size, kind = program["size"], getattr(library, program["kind"])
    start = (library.arange(size * size).reshape(size, size) % 5).to(kind).to(place)
    tracked = program["tracked"] and kind is library.float32
    leaf = start.clone().requires_grad_() if tracked else start
    written, other = leaf * 1 if tracked else leaf.clone(), start.flip(0)
    found = []
    for step, view, at, of in program["steps"]:
        shown = (written, written.t(), written[:, None][:, 0])[view]
        if step == "number":
            shown[at] = 1
        elif step == "other":
            shown[at] = other[of]
        elif step == "own":
            shown[at] = shown[of]
        elif step == "read":
            found.append(shown[at].item())
        elif step == "product":
            found.append((shown[at] & other[of] if kind is library.bool else shown[at] * other[of]).tolist())
        elif step == "row":
            found.append((shown[at] | other[of[0]] if kind is library.bool else shown[at] + other[of[0]]).tolist())
        elif kind is library.bool:
            shown[at] |= other[of]
        elif step == "add":
            shown[at] += 1
        elif step == "add other":
            shown[at] += other[of]
        else:
            shown[at] = shown[at[0]].sum().to(kind)
    if tracked:
        ((written * written).sum() + written[0, 1] * written[1, 0]).backward()
        found.append(leaf.grad.tolist())
    return [*found, written.tolist(), other.tolist()]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(program=programs())
def test_elements(device: str, program: dict[str, Any]) -> None:
    assert run(webgpu_torch, device, program) == run(torch, "cpu", program)


@pytest.mark.parametrize("step", ["read", "write", "copy", "add", "expression"])
def test_positions_share_kernels(device: str, step: str) -> None:
    engine = engine_for(webgpu_torch.device(device))
    values, other = webgpu_torch.rand(40, 50, device=device), webgpu_torch.rand(40, 50, device=device)

    def turn(row: int, column: int) -> None:
        if step == "write":
            values[row, column] = row
        elif step == "copy":
            values[row, column] = other[column, row]
        elif step == "add":
            values[row, column] += 1
        else:
            shown = values[row, column]
            (shown if step == "read" else shown * 2 + other[column, row]).item()
        engine.flush()

    for number in range(8):
        turn(1 + number, 2 + number)
    before = engine.statistics["scheduled"]
    for number in range(8, 30):
        turn(number, 3 * number % 40)
    assert engine.statistics["scheduled"] == before
