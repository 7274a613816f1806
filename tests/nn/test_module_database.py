"""Every module of PyTorch's own database of modules: the same state, starting values, results, gradients and text.

A test takes one module and one mode on one device, and runs every sample that PyTorch's tests run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from module_database import TABLE, Case, ours, resolve, samples, torch

#: at most three modules that differ, each with its reason
EXCEPTIONS: dict[str, str] = {}
#: how many samples of a module run at once; all of them run where slow tests do
SOME = {"cpu": 6, "webgpu": 3}
DEVICES = [
    each
    for each in os.environ.get("WEBGPU_TORCH_TEST_DEVICES", "cpu,webgpu").split(",")
    if each == "cpu" or (each == "webgpu" and ours.webgpu.is_available())
]


def cases() -> Iterator[Any]:
    """Yield modules, modes, devices and how many samples to run (None: all)."""
    for name in TABLE:
        for mode in ("train", "eval"):
            for device in DEVICES:
                title = f"{name.removeprefix('nn.')}-{mode}-{device}"
                yield pytest.param(name, mode, device, SOME[device], id=f"some-{title}")
                yield pytest.param(name, mode, device, None, id=title, marks=pytest.mark.slow)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Small tensors by the thousand: PyTorch's threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow_on("some-TransformerEncoder-train-webgpu")
@pytest.mark.parametrize(("name", "mode", "device", "count"), list(cases()))
def test_module(name: str, mode: str, device: str, count: int | None) -> None:
    if name in EXCEPTIONS:
        pytest.skip(EXCEPTIONS[name])
    if resolve(name) is None:
        pytest.fail(f"torch.{name} is missing")
    found = list(enumerate(samples(name, mode == "train")))
    for number, sample in found[:: 1 if count is None else -(-len(found) // count)]:
        given = f"sample {number}: {sample.constructor_input.args} {sample.constructor_input.kwargs}"
        case = Case(name, sample, mode == "train", device)
        try:
            case.check_text_and_state()
            case.check_results()
        except Exception as error:
            error.add_note(f"torch.{name}, {given}"[:400])
            raise


def test_exceptions_are_few_and_known() -> None:
    assert len(EXCEPTIONS) <= 3
    assert set(EXCEPTIONS) <= set(TABLE)
