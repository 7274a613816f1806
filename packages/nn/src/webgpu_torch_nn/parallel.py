"""Modules over several processes, as ``torch.nn.parallel``; of several devices in one, the first, as PyTorch where it finds no GPUs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.autograd.engine import queue_callback

from webgpu_torch_nn.distributed.collectives import all_reduce, broadcast
from webgpu_torch_nn.distributed.device_mesh import DeviceMesh
from webgpu_torch_nn.distributed.groups import ProcessGroup, default_group
from webgpu_torch_nn.distributed.transports import ReduceOp
from webgpu_torch_nn.modules.module import Module


class DataParallel(Module):
    """A module under the name ``module``, called where it is: batches are not divided.

    Args:
        module: what to call.
        device_ids, output_device, dim: taken and ignored, as by PyTorch on machines without CUDA.
    """

    def __init__(self, module: Module, device_ids: object = None, output_device: object = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(Module):
    """A module that every process has: after a backward pass, each has the mean of all gradients.

    Parameters and buffers become those of the first process. Gradients are added up when the pass is over, a few large tensors of
    one type at a time, in the order of the parameters, so that it does not matter which of them a process used: what it did not
    use counts as zero where another did.

    Args:
        module: what to call, under the name ``module``.
        device_ids, output_device, dim, bucket_cap_mb, find_unused_parameters, static_graph, …: taken and ignored.
        broadcast_buffers: whether buffers become those of the first process before each training call.
        init_sync: whether parameters and buffers do, now.
        process_group: the default group if none is given.

    Raises:
        RuntimeError: no parameter wants a gradient.
        ValueError: there is no default group.
    """

    def __init__(
        self, module: Module, device_ids: object = None, output_device: object = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False, check_reduction: bool = False,
        gradient_as_bucket_view: bool = False, static_graph: bool = False, delay_all_reduce_named_params: object = None,
        param_to_hook_all_reduce: object = None, mixed_precision: object = None, device_mesh: DeviceMesh | None = None,
        skip_all_reduce_unused_params: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if not any(each.requires_grad for each in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters that require a gradient."
            )
        self.module = module
        self.process_group = (device_mesh.get_group() if device_mesh is not None else process_group) or default_group()
        self.device = next(module.parameters()).device
        self.device_ids, self.output_device, self.dim = None, None, dim
        self.broadcast_buffers, self.find_unused_parameters, self.static_graph = (
            broadcast_buffers,
            find_unused_parameters,
            static_graph,
        )
        self.require_backward_grad_sync = True
        self._waiting = False
        if self.process_group.size() == 1:
            return
        if init_sync:
            for each in (*module.parameters(), *module.buffers()):
                broadcast(each.detach(), group=self.process_group, group_src=0)
        for each in module.parameters():
            if each.requires_grad:
                each.register_post_accumulate_grad_hook(self._arrived)

    def _arrived(self, parameter: Tensor) -> None:
        if self.require_backward_grad_sync and not self._waiting:
            self._waiting = True
            queue_callback(self._average)

    def _average(self) -> None:
        """Make each gradient the mean of all processes'."""
        self._waiting = False
        wanted = [each for each in self.module.parameters() if each.requires_grad]
        used = torch.tensor([float(each.grad is not None) for each in wanted], device=self.device)
        all_reduce(used, group=self.process_group)
        together: dict[torch.dtype, list[Tensor]] = {}
        for each, count in zip(wanted, used.tolist(), strict=True):
            if count:
                together.setdefault(each.dtype, []).append(each)
        for parameters in together.values():
            parts = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
            flat = torch.cat([each.detach().reshape(-1) for each in parts])
            all_reduce(flat, ReduceOp.AVG, self.process_group)
            pieces = flat.split([each.numel() for each in parts])
            for parameter, piece in zip(parameters, pieces, strict=True):
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                parameter.grad.detach().copy_(piece.reshape(parameter.shape))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        if self.broadcast_buffers and self.training and self.process_group.size() > 1:
            for each in self.module.buffers():
                broadcast(each, group=self.process_group, group_src=0)
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Add up gradients of this process alone; the next pass outside tells the others the sum."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """Do nothing around training on unequal numbers of batches, in one process.

        Raises:
            NotImplementedError: there are several, which do not wait for one that is through.
        """
        if enable and self.process_group.size() > 1:
            raise NotImplementedError(
                "join() of several processes: give each as many batches, as DistributedSampler does"
            )
        yield

    def register_comm_hook(self, state: object, hook: object) -> None:
        """Take a function that is to add gradients up in another way; in one process, there is nothing to add.

        Raises:
            NotImplementedError: there are several.
        """
        if self.process_group.size() > 1:
            raise NotImplementedError("hooks of communication: gradients of several processes are averaged as they are")


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
