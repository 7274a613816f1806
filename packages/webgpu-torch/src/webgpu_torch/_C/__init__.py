"""The few names of PyTorch's extension module that libraries touch."""

from __future__ import annotations

import contextlib
import enum
import weakref
from collections.abc import Iterator
from typing import Any

from webgpu_torch_core import Tensor, autocast, no_grad, overrides
from webgpu_torch_core import device as device
from webgpu_torch_core.api.kernel_switches import (
    get_deterministic_fill_uninitialized_memory as _get_deterministic_fill_uninitialized_memory,
)
from webgpu_torch_core.api.kernel_switches import (
    set_deterministic_fill_uninitialized_memory as _set_deterministic_fill_uninitialized_memory,
)
from webgpu_torch_core.backend.plugins import registry
from webgpu_torch_core.dispatch.autocast import is_autocast_available
from webgpu_torch_core.dispatch.overrides import DisableTorchFunction as DisableTorchFunction
from webgpu_torch_core.dispatch.overrides import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from webgpu_torch_core.dispatch.torch_dispatch import Answering, dispatch_modes
from webgpu_torch_core.dispatch.torch_dispatch import DisableTorchDispatch as _DisableTorchDispatch
from webgpu_torch_core.dispatch.torch_dispatch import disabled_dispatch as _disabled_torch_dispatch_impl
from webgpu_torch_core.func.batching import current_level
from webgpu_torch_core.operations.creation.lazy_copies import is_lazy_copy

from ..accelerator import current_accelerator
from . import _autograd as _autograd
from . import _functions as _functions
from . import _functorch as _functorch
from . import _nn as _nn
from ._convolution import _ConvBackend as _ConvBackend
from ._convolution import _select_conv_backend as _select_conv_backend
from ._passes import _current_autograd_node as _current_autograd_node
from ._passes import _current_graph_task_execution_order as _current_graph_task_execution_order
from ._passes import _current_graph_task_id as _current_graph_task_id
from ._passes import _will_engine_execute_node as _will_engine_execute_node
from ._script_switches import _debug_get_fusion_group_inlining as _debug_get_fusion_group_inlining
from ._script_switches import _debug_set_fusion_group_inlining as _debug_set_fusion_group_inlining
from ._script_switches import _get_graph_executor_optimize as _get_graph_executor_optimize
from ._script_switches import _jit_can_fuse_on_cpu as _jit_can_fuse_on_cpu
from ._script_switches import _jit_can_fuse_on_cpu_legacy as _jit_can_fuse_on_cpu_legacy
from ._script_switches import _jit_can_fuse_on_gpu as _jit_can_fuse_on_gpu
from ._script_switches import _jit_get_num_profiled_runs as _jit_get_num_profiled_runs
from ._script_switches import _jit_get_te_must_use_llvm_cpu as _jit_get_te_must_use_llvm_cpu
from ._script_switches import _jit_nvfuser_enabled as _jit_nvfuser_enabled
from ._script_switches import _jit_override_can_fuse_on_cpu as _jit_override_can_fuse_on_cpu
from ._script_switches import _jit_override_can_fuse_on_cpu_legacy as _jit_override_can_fuse_on_cpu_legacy
from ._script_switches import _jit_override_can_fuse_on_gpu as _jit_override_can_fuse_on_gpu
from ._script_switches import _jit_set_bailout_depth as _jit_set_bailout_depth
from ._script_switches import _jit_set_num_profiled_runs as _jit_set_num_profiled_runs
from ._script_switches import _jit_set_nvfuser_enabled as _jit_set_nvfuser_enabled
from ._script_switches import _jit_set_profiling_executor as _jit_set_profiling_executor
from ._script_switches import _jit_set_profiling_mode as _jit_set_profiling_mode
from ._script_switches import _jit_set_te_must_use_llvm_cpu as _jit_set_te_must_use_llvm_cpu
from ._script_switches import _jit_set_texpr_fuser_enabled as _jit_set_texpr_fuser_enabled
from ._script_switches import _jit_texpr_fuser_enabled as _jit_texpr_fuser_enabled
from ._script_switches import _set_graph_executor_optimize as _set_graph_executor_optimize

_disabled_torch_function_impl = overrides.disabled_implementation
_has_torch_function = overrides.has_torch_function
_has_torch_function_unary = overrides.has_torch_function_unary
_has_torch_function_variadic = overrides.has_torch_function_variadic
_is_torch_function_enabled = overrides.is_enabled


def _get_accelerator(check: bool | None = None) -> device:
    """Return the accelerator's device, else the CPU's."""
    return current_accelerator() or device("cpu")


def _is_torch_function_mode_enabled() -> bool:
    """Return whether a mode is open in this thread."""
    return bool(overrides.mode_stack())


def _len_torch_function_stack() -> int:
    """Return how many modes are open in this thread."""
    return len(overrides.mode_stack())


def _get_function_stack_at(ind: int) -> Any:
    """Return an open mode by its place, the outermost first."""
    return overrides.mode_stack()[ind]


def _are_functorch_transforms_active() -> bool:
    """Return whether a function is being mapped over a dimension in this thread."""
    return current_level() > 0


def _len_torch_dispatch_stack() -> int:
    """Return how many modes that answer operations are open in this thread."""
    return len(dispatch_modes())


def _get_dispatch_stack_at(ind: int) -> Answering:
    """Return an open mode that answers operations by its place, the outermost first."""
    return dispatch_modes()[ind]


#: whether operations are to warn that have no rule for batches: all have one
_fallback_warnings = [False]


def _debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    """Return what was last asked for."""
    return _fallback_warnings[0]


def _debug_only_display_vmap_fallback_warnings(enabled: bool) -> None:
    """Keep what is asked for, which changes nothing: nothing falls back."""
    _fallback_warnings[0] = enabled


def _is_cow_tensor(tensor: Tensor) -> bool:
    """Return whether a tensor will take memory of its own when it is written into: it or a copy was made by ``_lazy_clone``."""
    return is_lazy_copy(tensor)


def _storage_address(tensor: Tensor) -> int:
    """Return a number that a tensor's storage and no other has."""
    return tensor._storage.number


def _data_address(tensor: Tensor) -> int:
    """Return the address of a tensor's first element, as ``data_ptr``."""
    return tensor.data_ptr()


class _WeakTensorRef:
    """A reference to a tensor that does not keep it.

    Args:
        tensor: the tensor.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Return whether the tensor is gone."""
        return self._reference() is None


def _log_api_usage_once(event: str) -> None:
    """Do nothing: nothing is reported to anybody."""


def _log_api_usage_metadata(event: str, metadata_map: dict[str, str]) -> None:
    """Do nothing: nothing is reported to anybody."""


def _get_privateuse1_backend_name() -> str:
    """Return the name of PyTorch's own slot for other devices, which is free."""
    return "privateuseone"


class DispatchKeySet:
    """A set of PyTorch's dispatch keys, by name.

    Args:
        key: one of ``DispatchKey``, or several.
    """

    def __init__(self, key: enum.Enum | frozenset[str] = frozenset()) -> None:
        self._names = key if isinstance(key, frozenset) else frozenset({key.name})

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._names | other._names)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._names & other._names)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._names - other._names)

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(sorted(self._names))})"

    def has(self, key: enum.Enum) -> bool:
        """Return whether a key is in the set."""
        return key.name in self._names

    def add(self, key: enum.Enum) -> DispatchKeySet:
        """Return the set with a key more."""
        return self | DispatchKeySet(key)


@contextlib.contextmanager
def _ExcludeDispatchKeyGuard(keys: DispatchKeySet) -> Iterator[None]:
    """Compute without automatic casts, or without a graph, where a set has the keys of these."""
    with contextlib.ExitStack() as stack:
        if any(each.startswith("Autocast") for each in keys._names):
            for kind in filter(is_autocast_available, registry.backends):
                stack.enter_context(autocast(kind, enabled=False))
        if any(each.startswith("Autograd") for each in keys._names):
            stack.enter_context(no_grad())
        yield
