"""Moving values between PyTorch, the oracle, and this library."""

from __future__ import annotations

from typing import Any

import numpy
import torch
import webgpu_torch_core as ours


def to_ours(value: Any, device: str = "cpu") -> Any:
    """Return a copy of an oracle tensor as a tensor of this library."""
    array = value.detach().numpy().copy()
    return ours.from_numpy(array).to(device)


def to_torch(value: Any) -> torch.Tensor:
    """Return a copy of a tensor of this library as an oracle tensor."""
    return torch.from_numpy(numpy.array(value.detach().cpu().numpy()))


def copy_weights(source: torch.nn.Module, target: Any, device: str = "cpu") -> None:
    """Load the oracle module's state into a module of this library."""
    target.load_state_dict({key: to_ours(value, device) for key, value in source.state_dict().items()})


def close(actual: Any, expected: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Check shape, dtype and values against the oracle's."""
    torch.testing.assert_close(to_torch(actual), expected.detach(), rtol=rtol, atol=atol)
