"""What the tests of distributions share: the same text run by PyTorch and by this library, and their results compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch as ours


def array(value: Any) -> np.ndarray:
    """Return a tensor of either library as an array."""
    return value.detach().cpu().numpy()


def same(found: Any, wanted: Any, where: str, tolerance: float) -> None:
    """Assert that two tensors have one shape, one type and values within a tolerance."""
    assert tuple(found.shape) == tuple(wanted.shape), where
    assert str(found.dtype) == str(wanted.dtype), where
    np.testing.assert_allclose(array(found), array(wanted), tolerance, tolerance, err_msg=where)


def made(case: Any, library: Any, device: str = "cpu") -> tuple[Any, list[Any], Any]:
    """Return a case's distribution, its parameters and a value."""
    build, parameters, value = case
    tensors = [library.tensor(each, device=device, requires_grad=True) for each in parameters]
    return build(library.distributions, *tensors), tensors, library.tensor(value, device=device)


def refused_alike(case: Callable[[Any, Any], Any], letters: int) -> None:
    """Assert that both libraries refuse a case with one type of error and the same first letters."""
    errors = []
    for library in (torch, ours):
        with pytest.raises(Exception) as caught:
            case(library, library.distributions)
        errors.append(caught.value)
    assert type(errors[1]) is type(errors[0])
    assert str(errors[1])[:letters].replace("webgpu_torch", "torch") == str(errors[0])[:letters]
