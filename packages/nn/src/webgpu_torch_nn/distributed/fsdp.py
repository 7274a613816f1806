"""Modules whose parameters processes share out, as ``torch.distributed.fsdp``: of one process, which has them all."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import Iterator
from typing import Any, TypeAlias

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from ..modules.module import Module
from ..optim.optimizer import Optimizer
from ..utils.clip_grad import clip_grad_norm_
from .groups import default_group, member
from .names import parameter_names

__all__ = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "FSDPModule", "FullOptimStateDictConfig", "FullStateDictConfig",
    "FullyShardedDataParallel", "MixedPrecision", "MixedPrecisionPolicy", "OffloadPolicy", "OptimStateDictConfig",
    "ShardingStrategy", "StateDictConfig", "StateDictType", "fully_shard",
]  # fmt: skip


State: TypeAlias = dict[str, Any]


class ShardingStrategy(enum.Enum):
    """What is shared out; of one process, nothing."""

    FULL_SHARD = enum.auto()
    SHARD_GRAD_OP = enum.auto()
    NO_SHARD = enum.auto()
    HYBRID_SHARD = enum.auto()
    _HYBRID_SHARD_ZERO2 = enum.auto()


class BackwardPrefetch(enum.Enum):
    """When parameters of the next module are fetched; of one process, they are there."""

    BACKWARD_PRE = enum.auto()
    BACKWARD_POST = enum.auto()


class StateDictType(enum.Enum):
    """What a state dictionary holds; of one process, whole tensors in every case."""

    FULL_STATE_DICT = enum.auto()
    LOCAL_STATE_DICT = enum.auto()
    SHARDED_STATE_DICT = enum.auto()


@dataclasses.dataclass
class MixedPrecision:
    """The types to compute in: ``param_dtype`` and ``buffer_dtype`` are asked of autocast instead, see :class:`FullyShardedDataParallel`."""

    param_dtype: torch.dtype | None = None
    reduce_dtype: torch.dtype | None = None
    buffer_dtype: torch.dtype | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True


@dataclasses.dataclass
class MixedPrecisionPolicy:
    """The types to compute in, of :func:`fully_shard`."""

    param_dtype: torch.dtype | None = None
    reduce_dtype: torch.dtype | None = None
    output_dtype: torch.dtype | None = None
    cast_forward_inputs: bool = True


@dataclasses.dataclass
class CPUOffload:
    """Whether parameters wait on the CPU; here they stay where they are."""

    offload_params: bool = False


@dataclasses.dataclass
class OffloadPolicy:
    """Parameters stay on their device."""


@dataclasses.dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters would wait on the CPU; here they stay where they are."""

    pin_memory: bool = True


@dataclasses.dataclass
class StateDictConfig:
    """How a state dictionary is made."""

    offload_to_cpu: bool = False


@dataclasses.dataclass
class FullStateDictConfig(StateDictConfig):
    """How a dictionary of whole tensors is made."""

    rank0_only: bool = False


@dataclasses.dataclass
class OptimStateDictConfig:
    """How an optimiser's dictionary is made."""

    offload_to_cpu: bool = True


@dataclasses.dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """How an optimiser's dictionary of whole tensors is made."""

    rank0_only: bool = False


def _require_one(group: object, what: str) -> None:
    found = member(group)
    if found is not None and found.size() > 1:
        raise NotImplementedError(
            f"{what} of {found.size()} processes: parameters are not shared out. Use DistributedDataParallel, where each has them all"
        )


def _require_full_precision(policy: object) -> None:
    asked = getattr(policy, "param_dtype", None)
    if asked not in (None, torch.float32):
        raise NotImplementedError(f"mixed precision of {asked!r}: compute under torch.autocast instead")


class FullyShardedDataParallel(Module):
    """A module of one process: it is called as it is, and its state dictionary has the module's own names.

    Args:
        module: what is wrapped.
        process_group: the default group if none is given.
        mixed_precision: float32, or nothing.
        sharding_strategy, cpu_offload, auto_wrap_policy, …: taken and ignored: there is nobody to share with.

    Raises:
        NotImplementedError: several processes, or mixed precision.
        ValueError: there is no default group.
    """

    def __init__(
        self, module: Module, process_group: object = None, sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None, auto_wrap_policy: object = None, backward_prefetch: object = None,
        mixed_precision: MixedPrecision | None = None, ignored_modules: object = None, param_init_fn: object = None,
        device_id: object = None, sync_module_states: bool = False, forward_prefetch: bool = False,
        limit_all_gathers: bool = True, use_orig_params: bool = False, ignored_states: object = None, device_mesh: object = None,
    ) -> None:  # fmt: skip
        super().__init__()
        _require_one(process_group, "FullyShardedDataParallel")
        _require_full_precision(mixed_precision)
        self._fsdp_wrapped_module = module
        self.process_group = member(process_group)
        self.sharding_strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        self._register_state_dict_hook(_without_prefix)
        self._register_load_state_dict_pre_hook(_with_prefix)

    @property
    def module(self) -> Module:
        """The wrapped module."""
        return self._fsdp_wrapped_module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self._fsdp_wrapped_module(*args, **kwargs)

    def __getattr__(self, name: str) -> object:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_fsdp_wrapped_module":
                raise
            return getattr(self._fsdp_wrapped_module, name)

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Limit the norm of all gradients, and return what it was."""
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Do nothing around some steps: there is nobody to tell gradients."""
        yield

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(module: Module, **options: object) -> Iterator[None]:
        """Do nothing: all parameters are there."""
        yield

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(module: Module, state_dict_type: StateDictType, *configs: object) -> Iterator[None]:
        """Do nothing: a state dictionary holds whole tensors."""
        yield

    @staticmethod
    def set_state_dict_type(module: Module, state_dict_type: StateDictType, *configs: object) -> None:
        """Do nothing, for the same reason."""

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """Return the wrapped modules inside of one."""
        found = [each for each in module.modules() if isinstance(each, FullyShardedDataParallel)]
        return found[:1] if root_only else found

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Optimizer, optim_state_dict: State | None = None, group: object = None
    ) -> State:
        """Return an optimiser's state with parameters by name."""
        state = optim.state_dict() if optim_state_dict is None else optim_state_dict
        names = parameter_names(model, optim)
        groups = [{**each, "params": [names[number] for number in each["params"]]} for each in state["param_groups"]]
        return {"state": {names[number]: each for number, each in state["state"].items()}, "param_groups": groups}

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Optimizer,
        optim_state_dict: State,
        is_named_optimizer: bool = False,
        group: object = None,
    ) -> State:
        """Return an optimiser's state with parameters by number, of one by name."""
        numbers = {name: number for number, name in enumerate(parameter_names(model, optim))}
        groups = [
            {**each, "params": [numbers[name] for name in each["params"]]} for each in optim_state_dict["param_groups"]
        ]
        return {
            "state": {numbers[name]: each for name, each in optim_state_dict["state"].items()},
            "param_groups": groups,
        }


_PREFIX = "_fsdp_wrapped_module."


def _without_prefix(module: Module, state: State, prefix: str, metadata: object) -> None:
    for name in [name for name in state if name.startswith(prefix + _PREFIX)]:
        state[prefix + name.removeprefix(prefix + _PREFIX)] = state.pop(name)


def _with_prefix(state: State, prefix: str, *rest: object) -> None:
    for name in [name for name in state if name.startswith(prefix) and not name.startswith(prefix + _PREFIX)]:
        state[prefix + _PREFIX + name.removeprefix(prefix)] = state.pop(name)


class FSDPModule:
    """What :func:`fully_shard` makes of a module, beside what it is: of one process, nothing to do."""

    def unshard(self, async_op: bool = False) -> None:
        """Do nothing: all parameters are there."""

    def reshard(self) -> None:
        """Do nothing: they stay."""

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Do nothing: there is nobody to tell gradients."""

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Do nothing, for the same reason."""

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Do nothing: parameters stay."""


def fully_shard(
    module: Module, *, mesh: object = None, reshard_after_forward: object = None, shard_placement_fn: object = None,
    mp_policy: MixedPrecisionPolicy | None = None, offload_policy: OffloadPolicy | None = None, ignored_params: object = None,
) -> Module:  # fmt: skip
    """Let a module of one process be an :class:`FSDPModule`, too, and return it.

    Raises:
        NotImplementedError: several processes, or mixed precision.
        ValueError: there is no default group.
    """
    _require_one(default_group(), "fully_shard")
    _require_full_precision(mp_policy)
    kind = type(module)
    if not isinstance(module, FSDPModule):
        module.__class__ = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {"__module__": kind.__module__})
    return module
