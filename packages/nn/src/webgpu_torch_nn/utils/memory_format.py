"""Weights of convolutions with their channels last in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webgpu_torch_nn.modules.module import Module


def _convert(module: Module, memory_format: Any, kinds: tuple[type, ...]) -> Module:
    for each in module.modules():
        if isinstance(each, kinds):
            weight: Any = each.weight
            weight.data = weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Give the weights of all 2-d convolutions inside of a module a memory format."""
    from webgpu_torch_nn.modules import Conv2d, ConvTranspose2d

    return _convert(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Give the weights of all 3-d convolutions inside of a module a memory format."""
    from webgpu_torch_nn.modules import Conv3d, ConvTranspose3d

    return _convert(module, memory_format, (Conv3d, ConvTranspose3d))


__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]
