"""Gradients of convolutions alone, as ``torch.nn.grad``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.functional import conv1d, conv2d, conv3d
from webgpu_torch_nn.functional._arguments import per_rank

CONVOLUTIONS = {1: conv1d, 2: conv2d, 3: conv3d}


def _slope(
    function: Callable[..., Tensor], wanted: int, input: Tensor, weight: Tensor, grad_output: Tensor, *options: Any
) -> Tensor:
    operands = [input.detach(), weight.detach()]
    operands[wanted].requires_grad_()
    with torch.enable_grad():
        result = function(*operands, None, *options)
    return torch.autograd.grad(result, operands[wanted], grad_output)[0]


def _nothing(size: Any, like: Tensor) -> Tensor:
    # A convolution is linear in each operand: that one's gradient does not depend on its values.
    return like.new_zeros(1).expand(tuple(size))


def _make_input(spatial: int):
    def convNd_input(
        input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:  # fmt: skip
        """Return the gradient of :func:`convNd` in its input, of shape ``input_size``."""
        like = _nothing(input_size, grad_output)
        return _slope(CONVOLUTIONS[spatial], 0, like, weight, grad_output, stride, padding, dilation, groups)

    return convNd_input


def _make_weight(spatial: int):
    def convNd_weight(
        input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:  # fmt: skip
        """Return the gradient of :func:`convNd` in its weight, of shape ``weight_size``."""
        like = _nothing(weight_size, grad_output)
        return _slope(CONVOLUTIONS[spatial], 1, input, like, grad_output, stride, padding, dilation, groups)

    return convNd_weight


conv1d_input, conv2d_input, conv3d_input = per_rank(_make_input)
conv1d_weight, conv2d_weight, conv3d_weight = per_rank(_make_weight)

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]
