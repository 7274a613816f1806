"""The few names of PyTorch's compiled functions of networks that libraries touch."""

from __future__ import annotations

from webgpu_torch_core import device, dtype, memory_format
from webgpu_torch_nn.modules import _conversion


def _parse_to(
    *args: object, memory_format: memory_format | None = None, **kwargs: object
) -> tuple[device | None, dtype | None, bool, memory_format | None]:
    """Return what the arguments of ``Module.to`` say: device, type, whether not to wait, and memory format.

    Raises:
        TypeError: they say nothing, or something else.
    """
    return (*_conversion.parse_to(*args, **kwargs), memory_format)
