"""Forms that PyTorch discourages are taken with its warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours

FORMS: dict[str, Callable[[Any], Any]] = {
    "lists of lists": lambda t: t.arange(9.0).reshape(3, 3)[[[0, 1], [1, 2]]],
    "a list with a slice": lambda t: t.arange(9.0).reshape(3, 3)[[slice(0, 2), 1]],
    "a list with a tensor": lambda t: t.arange(9.0).reshape(3, 3)[[t.tensor([0]), t.tensor([1])]],
    "a list with nothing": lambda t: t.arange(9.0).reshape(3, 3)[[None, 0]],
    "a list of positions": lambda t: t.arange(9.0).reshape(3, 3)[[0, 2]],
    "writing to lists": lambda t: t.zeros(3, 3).__setitem__([[0, 1], [1, 2]], 1.0),
    "an older mean": lambda t: t.nn.functional.mse_loss(t.ones(2), t.zeros(2), reduction="elementwise_mean"),
    "a complex module": lambda t: t.nn.Linear(1, 1).to(t.complex64).weight.real.shape,
    "memory that is read": lambda t: t.frombuffer(b"12345678", dtype=t.uint8),
    "scattered sums of a tensor": lambda t: t.zeros(3).scatter(0, t.tensor([0]), t.ones(1), reduce="add"),
    "scattered sums of a number": lambda t: t.zeros(3).scatter(0, t.tensor([0]), 2.0, reduce="add"),
}


def _told(library: Any, form: Callable[[Any], Any]) -> tuple[list[str], Any]:
    # Some are told once in a process, and another test may have been first.
    library.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = form(library)
    finally:
        library.set_warn_always(False)
    return [str(each.message)[:60] for each in caught], result.tolist() if hasattr(result, "tolist") else result


@pytest.mark.parametrize("name", FORMS)
def test_warnings_of_forms(name: str) -> None:
    assert _told(ours, FORMS[name]) == _told(torch, FORMS[name])
