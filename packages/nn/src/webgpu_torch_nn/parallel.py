"""Modules over several devices, as ``torch.nn.parallel``: one device here, as PyTorch does where it finds no GPUs."""

from __future__ import annotations

from typing import Any

from webgpu_torch_nn.modules.module import Module


class DataParallel(Module):
    """A module under the name ``module``, called where it is: batches are not divided.

    Args:
        module: what to call.
        device_ids, output_device, dim: taken and ignored, as by PyTorch on machines without CUDA.
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(Module):
    """A module over several processes: there are none to talk to, since ``torch.distributed.is_available()`` is False.

    Raises:
        RuntimeError: always, as in builds of PyTorch without its distributed package.
    """

    def __init__(self, module: Module, *_: Any, **__: Any) -> None:
        raise RuntimeError("DistributedDataParallel needs torch.distributed, which is not available")


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call a module on one input or a tuple of them, where it is."""
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]
