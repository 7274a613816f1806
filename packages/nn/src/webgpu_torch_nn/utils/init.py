"""Modules without starting values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webgpu_torch_nn.modules.module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """Return a module whose parameters and buffers hold anything, on ``device``.

    Raises:
        RuntimeError: the class is no module, or its constructor has no ``device``.
    """
    import inspect

    from webgpu_torch_core.record.devices import host_device

    from webgpu_torch_nn.modules.module import Module

    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    final = kwargs.pop("device", None) or host_device()
    return module_cls(*args, **kwargs, device="meta").to_empty(device=final)
