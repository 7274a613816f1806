"""Switches that programs set for PyTorch's own kernels: read back as they were set.

Results here are the same run after run, and float32 products are computed in float32, whatever is asked for.
"""

from __future__ import annotations

import os
from typing import Any

from ..notices import Determinism, Notices, warn
from ..operations.creation.typed_storage import TypedStorage
from ..operations.creation.untyped_storage import UntypedStorage
from ..operations.elementwise.call import use_default_float
from ..record.context import filling
from ..record.devices import engine_for, host_device
from ..tensors.tensor import Tensor
from . import typed_tensors
from .typed_tensors import TYPES


class _Settings:
    precision = "highest"
    fill = True
    threads = 0
    interop_threads = 0


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _checked_count(value: Any, function: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise RuntimeError(f"{function} expects an int, but got {type(value).__name__}")
    if value <= 0:
        raise RuntimeError(f"{function} expects a positive integer")
    return value


def set_num_threads(num: int) -> None:
    """Compute on the host with so many threads: products of matrices with OpenBLAS's, and compiled kernels.

    Raises:
        RuntimeError: not a positive integer.
    """
    _Settings.threads = _checked_count(num, "set_num_threads")
    engine_for(host_device()).device.use_threads(num)


def get_num_threads() -> int:
    """Return the number of threads set, else that of processors."""
    return _Settings.threads or _processors()


def set_num_interop_threads(num: int) -> None:
    """Set what :func:`get_num_interop_threads` returns.

    Raises:
        RuntimeError: not a positive integer.
    """
    _Settings.interop_threads = _checked_count(num, "set_num_interop_threads")


def get_num_interop_threads() -> int:
    """Return the number set, else that of processors."""
    return _Settings.interop_threads or _processors()


def set_float32_matmul_precision(precision: str) -> None:
    """Set what :func:`get_float32_matmul_precision` returns: ``highest``, ``high`` or ``medium``.

    Raises:
        RuntimeError: not a string.
    """
    if not isinstance(precision, str):
        raise RuntimeError(f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}")
    if precision not in ("highest", "high", "medium"):
        warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current setFloat32MatmulPrecision call has no "
            "effect.",
        )
        return
    _Settings.precision = precision


def get_float32_matmul_precision() -> str:
    """Return the precision that was asked for."""
    return _Settings.precision


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for results that are the same run after run: they are anyway.

    Raises:
        TypeError: not a bool.
    """
    if not isinstance(mode, bool):
        raise TypeError(
            "_set_deterministic_algorithms(): argument 'mode' (position 1) must be bool, not " + type(mode).__name__
        )
    Determinism.wanted, Determinism.warn_only = mode, warn_only
    filling[0] = mode and _Settings.fill


def get_deterministic_fill_uninitialized_memory() -> bool:
    """Return whether memory that nothing was written to has known contents while algorithms are to be deterministic."""
    return _Settings.fill


def set_deterministic_fill_uninitialized_memory(mode: bool) -> None:
    """Choose whether such memory has known contents: NaN, the greatest integer, True.

    Raises:
        RuntimeError: not a bool.
    """
    if not isinstance(mode, bool):
        raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
    _Settings.fill = mode
    filling[0] = mode and Determinism.wanted


def are_deterministic_algorithms_enabled() -> bool:
    """Return whether :func:`use_deterministic_algorithms` was called."""
    return Determinism.wanted


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return whether it was called with ``warn_only``."""
    return Determinism.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set determinism by a number or its name: 0 ``default``, 1 ``warn``, 2 ``error``.

    Raises:
        TypeError: neither an int nor a string.
        RuntimeError: another value.
    """
    if not isinstance(debug_mode, int | str):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    names = ("default", "warn", "error")
    if isinstance(debug_mode, str):
        if debug_mode not in names:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
            )
        debug_mode = names.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """Return determinism as a number: 0 off, 1 warnings, 2 errors."""
    if not Determinism.wanted:
        return 0
    return 1 if Determinism.warn_only else 2


def set_warn_always(b: bool, /) -> None:
    """Set whether warnings that come once in a process come every time.

    Raises:
        RuntimeError: not a bool.
    """
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    Notices.always = b


def is_warn_always_enabled() -> bool:
    """Return whether warnings that come once in a process come every time."""
    return Notices.always


def set_flush_denormal(mode: bool) -> bool:
    """Return False: denormal numbers are computed as the device does."""
    return False


def is_storage(obj: Any, /) -> bool:
    """Return whether an object is a tensor's storage."""
    return isinstance(obj, UntypedStorage | TypedStorage)


def typename(obj: Any, /) -> str:
    """Return the name of an object's type; a tensor's names its element type."""
    if isinstance(obj, Tensor):
        names = {kind: name for name, kind in TYPES.items()}
        return f"torch.{names.get(obj.dtype, 'Tensor')}"
    kind = obj if isinstance(obj, type) else type(obj)
    home = kind.__module__ or ""
    home = "torch" if kind is Tensor else home
    return kind.__qualname__ if home in ("", "builtins") else f"{home}.{kind.__qualname__}"


def set_default_tensor_type(t: Any, /) -> None:
    """Set the type of new tensors by one of the old names of types of tensors; deprecated.

    Raises:
        TypeError: no such type, or not one of floats.
    """
    warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives.",
    )
    name = t.rpartition(".")[2] if isinstance(t, str) else getattr(t, "__name__", "")
    kind = typed_tensors.TYPES.get(name)
    if kind is None:
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    if not kind.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    use_default_float(kind)


__all__ = [
    "are_deterministic_algorithms_enabled", "get_deterministic_debug_mode", "get_float32_matmul_precision",
    "get_num_interop_threads", "get_num_threads", "is_deterministic_algorithms_warn_only_enabled", "is_storage",
    "is_warn_always_enabled", "set_default_tensor_type", "set_deterministic_debug_mode", "set_float32_matmul_precision",
    "set_flush_denormal", "set_num_interop_threads", "set_num_threads", "set_warn_always", "typename",
    "use_deterministic_algorithms",
]  # fmt: skip
