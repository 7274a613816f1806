"""Parameters as one vector."""

from __future__ import annotations

from collections.abc import Iterable

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor


def _check_device(parameter: Tensor, first: Tensor) -> None:
    if parameter.device != first.device:
        raise TypeError(
            "Found two parameters on different devices, this is currently not supported: "
            f"{first.device} and {parameter.device}."
        )


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return the elements of all parameters as one 1-d tensor."""
    parameters = list(parameters)
    for parameter in parameters:
        _check_device(parameter, parameters[0])
    return torch.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Give consecutive pieces of the 1-d tensor ``vec`` to the parameters as their data."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    parameters = list(parameters)
    start = 0
    for parameter in parameters:
        _check_device(parameter, parameters[0])
        count = parameter.numel()
        parameter.data = vec[start : start + count].view_as(parameter).data
        start += count
