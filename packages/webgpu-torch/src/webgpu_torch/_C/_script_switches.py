"""Switches of PyTorch's executor of scripts, which programs turn before they script anything: they read back as they were set."""

from __future__ import annotations

from collections.abc import Callable

#: what PyTorch's are at first
_values: dict[str, bool | int] = {
    "profiling_executor": True, "profiling_mode": True, "bailout_depth": 12, "num_profiled_runs": 1, "fuse_on_cpu": False,
    "fuse_on_gpu": False, "fuse_on_cpu_legacy": False, "texpr_fuser": True, "optimize": True, "inlining": True,
    "must_use_llvm": True,
}  # fmt: skip


def _setter(name: str, answers: bool) -> Callable[[bool | int], bool | int | None]:
    def set_it(value: bool | int) -> bool | int | None:
        before, _values[name] = _values[name], type(_values[name])(value)
        return before if answers else None

    set_it.__doc__ = "Set the switch, which changes nothing" + (", and return what it was." if answers else ".")
    return set_it


def _getter(name: str) -> Callable[[], bool | int]:
    def get_it(*_: object) -> bool | int:
        return _values[name]

    get_it.__doc__ = "Return what the switch was set to."
    return get_it


_jit_set_profiling_executor = _setter("profiling_executor", True)
_jit_set_profiling_mode = _setter("profiling_mode", True)
_jit_set_bailout_depth = _setter("bailout_depth", True)
_jit_set_num_profiled_runs = _setter("num_profiled_runs", True)
_jit_get_num_profiled_runs = _getter("num_profiled_runs")
_jit_override_can_fuse_on_cpu = _setter("fuse_on_cpu", False)
_jit_can_fuse_on_cpu = _getter("fuse_on_cpu")
_jit_override_can_fuse_on_cpu_legacy = _setter("fuse_on_cpu_legacy", False)
_jit_can_fuse_on_cpu_legacy = _getter("fuse_on_cpu_legacy")
_jit_override_can_fuse_on_gpu = _setter("fuse_on_gpu", False)
_jit_set_texpr_fuser_enabled = _setter("texpr_fuser", False)
_jit_texpr_fuser_enabled = _getter("texpr_fuser")
_jit_set_te_must_use_llvm_cpu = _setter("must_use_llvm", False)
_jit_get_te_must_use_llvm_cpu = _getter("must_use_llvm")
_set_graph_executor_optimize = _setter("optimize", False)
_get_graph_executor_optimize = _getter("optimize")
_debug_set_fusion_group_inlining = _setter("inlining", False)
_debug_get_fusion_group_inlining = _getter("inlining")


def _jit_can_fuse_on_gpu() -> bool:
    """Return False, as PyTorch without CUDA."""
    return False


def _jit_set_nvfuser_enabled(value: bool) -> None:
    """Do nothing, as PyTorch, which has no such compiler any more."""
    del value


def _jit_nvfuser_enabled() -> None:
    """Do nothing."""
