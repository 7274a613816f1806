"""Gradients of convolutions alone, as ``torch.nn.grad``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.functional import conv1d, conv2d, conv3d


def _slope(
    function: Callable[..., Tensor], wanted: int, input: Tensor, weight: Tensor, grad_output: Tensor, *options: Any
) -> Tensor:
    operands = [input.detach(), weight.detach()]
    operands[wanted].requires_grad_()
    with torch.enable_grad():
        result = function(*operands, None, *options)
    return torch.autograd.grad(result, operands[wanted], grad_output)[0]


def _of_input(function: Callable[..., Tensor], size: Any, weight: Tensor, grad_output: Tensor, *options: Any) -> Tensor:
    # A convolution is linear: its input's gradient does not depend on the input.
    return _slope(function, 0, grad_output.new_zeros(1).expand(tuple(size)), weight, grad_output, *options)


def _of_weight(function: Callable[..., Tensor], input: Tensor, size: Any, grad_output: Tensor, *options: Any) -> Tensor:
    return _slope(function, 1, input, grad_output.new_zeros(1).expand(tuple(size)), grad_output, *options)


def conv1d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of :func:`conv1d` in its input, of shape ``input_size``."""
    return _of_input(conv1d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of :func:`conv1d` in its weight, of shape ``weight_size``."""
    return _of_weight(conv1d, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of :func:`conv2d` in its input, of shape ``input_size``."""
    return _of_input(conv2d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of :func:`conv2d` in its weight, of shape ``weight_size``."""
    return _of_weight(conv2d, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of :func:`conv3d` in its input, of shape ``input_size``."""
    return _of_input(conv3d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of :func:`conv3d` in its weight, of shape ``weight_size``."""
    return _of_weight(conv3d, input, weight_size, grad_output, stride, padding, dilation, groups)


__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]
