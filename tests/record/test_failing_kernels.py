"""A kernel that raises, in any place, once or for ever: nothing is lost, and what does not depend on it has its values."""

from __future__ import annotations

import sys
from functools import partial
from types import FrameType
from typing import Any

import pytest
import webgpu_torch as torch
from failing_programs import Fault, Run, failing_kernel, failing_operation, programs
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_nothing_lost import Training
from webgpu_torch_backend_wgpu import replay

DEVICES = ["cpu", "webgpu"]
OPTIMIZERS = {
    "Adam": torch.optim.Adam,
    "SGD": partial(torch.optim.SGD, momentum=0.9),
    "RMSprop": partial(torch.optim.RMSprop, centered=True),
    "AdamW": partial(torch.optim.AdamW, amsgrad=True),
}
Program = list[tuple[str, int, int]]


@pytest.fixture(autouse=True)
def every_kernel_is_a_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "LARGEST_SUBMIT", 1)


def same(found: Any, expected: Any) -> None:
    """Compare two runs' tensors: kernels that run apart may round otherwise than merged ones."""
    assert torch.allclose(found.cpu(), expected.cpu(), rtol=1e-4, atol=1e-4, equal_nan=True)


def expected_of(device: str, program: Program) -> Run:
    run = Run(device)
    for each in program:
        run.statement(*each)
    for each in run.tensors:
        each.tolist()
    return run


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=60, deadline=None)
@given(program=programs, place=st.integers(1, 12))
def test_once_in_any_place(device: str, program: Program, place: int) -> None:
    expected = expected_of(device, program)
    run = Run(device)
    with failing_kernel(device, place):
        for statement in program:
            try:
                run.statement(*statement)
            except Fault:
                # Nothing that reads has any other effect.
                assert statement[0] == "read"
        try:
            torch.accelerator.synchronize(device)
        except Fault:
            pass
    for found, each in zip(run.tensors, expected.tensors, strict=True):
        same(found, each)


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=60, deadline=None)
@given(program=programs)
def test_for_ever(device: str, program: Program) -> None:
    run, done = Run(device), []
    with failing_operation(device, "lgamma"):
        for statement in program:
            try:
                run.statement(*statement)
                done.append(statement)
            except Fault:
                # Its operands are not there.
                assert run.tainted & set(statement[1:]), statement
        for number, found in enumerate(run.tensors):
            try:
                found.tolist()
            except Fault as error:
                assert number in run.tainted
                assert any("lgamma" in each and device in each for each in error.__notes__)
    expected = expected_of(device, done)
    for found, each in zip(run.tensors, expected.tensors, strict=True):
        same(found, each)


def is_lost(tensor: Any) -> bool:
    """Return whether a tensor's values went when a kernel failed that was overwriting them, and say so."""
    try:
        tensor.tolist()
    except RuntimeError as error:
        return isinstance(error.__cause__, Fault) and "in kernel '" in error.__cause__.__notes__[0]
    return False


@settings(max_examples=100, deadline=None)
@given(program=programs, place=st.integers(1, 60))
@example(program=[("mul_", 0, 0), ("put_", 1, 0), ("add", 0, 0), ("put_", 0, 0), ("add", 0, 1)], place=29)
def test_in_any_line_of_a_kernel(program: Program, place: int) -> None:
    run, count = Run("cpu"), 0

    def line(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        if event == "line":
            count += 1
            if count == place:
                raise Fault(f"line {place}")
        return line

    def call(frame: FrameType, event: str, argument: object) -> Any:
        return line if frame.f_code.co_filename.startswith("<cpu kernel") and frame.f_code.co_name == "kernel" else None

    traced, done = sys.gettrace(), 0
    sys.settrace(call)
    try:
        for statement in program:
            run.statement(*statement)
            done += 1
        torch.accelerator.synchronize("cpu")
    except (Fault, RuntimeError) as error:
        # A selection reads its mask; what operands' values were lost of, cannot be gone on with.
        whole = done == len(program) or statement[0] in ("read", "put_")
        assert whole or any(is_lost(run.tensors[number]) for number in statement[1:])
        assert isinstance(error, Fault) or isinstance(error.__cause__, Fault)
    finally:
        sys.settrace(traced)
    expected = expected_of("cpu", program[:done])
    for found, each in zip(run.tensors, expected.tensors, strict=True):
        if not is_lost(found):
            same(found, each)


def trained(device: str, optimizer: str, steps: int) -> list[Any]:
    training = Training(device, OPTIMIZERS[optimizer])
    for _ in range(steps):
        training.step()
    torch.accelerator.synchronize(device)
    return training.survivors()


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=15, deadline=None)
@given(optimizer=st.sampled_from(sorted(OPTIMIZERS)), places=st.lists(st.integers(1, 70), min_size=1, max_size=3))
def test_training_goes_on(device: str, optimizer: str, places: list[int]) -> None:
    training = Training(device, OPTIMIZERS[optimizer])
    training.step()
    for place in places:
        with failing_kernel(device, place):
            try:
                training.step()
                torch.accelerator.synchronize(device)
            except Fault:
                pass
    for found, each in zip(training.survivors(), trained(device, optimizer, 1 + len(places)), strict=True):
        same(found, each)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_whose_activation_fails(device: str, optimizer: str) -> None:
    training = Training(device, OPTIMIZERS[optimizer])
    training.step()
    expected = trained(device, optimizer, 2)
    with failing_operation(device, "tanh"):
        with pytest.raises(Fault, match="no tanh today"):
            training.step()
        # They come before the activation.
        for each in training.model[1].buffers():
            each.tolist()
        for each in training.model.parameters():
            with pytest.raises(Fault, match="no tanh today") as caught:
                each.tolist()
            assert any("tanh" in note and device in note for note in caught.value.__notes__)
    for found, each in zip(training.survivors(), expected, strict=True):
        same(found, each)


@pytest.mark.parametrize("device", DEVICES)
def test_a_failure_is_told_once(device: str) -> None:
    kept = torch.arange(3.0, device=device)
    with failing_operation(device, "lgamma"):
        lost = (kept + 1).lgamma()
        with pytest.raises(Fault):
            lost.tolist()
        # Whoever was told may go on, whether or not the tensor still lives.
        torch.accelerator.synchronize(device)
        with pytest.raises(Fault):
            lost.sum().item()
        del lost
        torch.accelerator.synchronize(device)
        assert kept.mul(2).tolist() == [0.0, 2.0, 4.0]
