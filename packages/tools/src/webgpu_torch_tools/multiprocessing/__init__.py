"""Python's ``multiprocessing`` with PyTorch's additions, as ``torch.multiprocessing``.

Tensors go through queues and pipes, and as arguments of processes, by pickling: the other process has a **copy** on the
same device (with a device of its own, as after ``spawn``). No memory is shared: ``Tensor.share_memory_()`` returns the
tensor as it is, ``is_shared()`` is False, and the sharing strategies below are remembered without effect. What has to
come back goes through a queue. A forked process cannot use the GPU of its parent; that is an error.
"""

from __future__ import annotations

import multiprocessing as _multiprocessing
import sys
from multiprocessing import *

from .spawn import ENV_VAR_PARALLEL_START as ENV_VAR_PARALLEL_START
from .spawn import ProcessContext as ProcessContext
from .spawn import ProcessException as ProcessException
from .spawn import ProcessExitedException as ProcessExitedException
from .spawn import ProcessRaisedException as ProcessRaisedException
from .spawn import SpawnContext as SpawnContext
from .spawn import spawn as spawn
from .spawn import start_processes as start_processes

__all__ = ["get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy"]
__all__ += _multiprocessing.__all__  # pyright: ignore[reportUnsupportedDunderAll]

_strategies = {"file_system"} if sys.platform in ("darwin", "win32") else {"file_descriptor", "file_system"}


class _Chosen:
    strategy = "file_system" if sys.platform in ("darwin", "win32") else "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """Return the names of the ways in which PyTorch shares memory on this system."""
    return _strategies


def get_sharing_strategy() -> str:
    """Return the one that was chosen; no memory is shared here."""
    return _Chosen.strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose one; no memory is shared here.

    Raises:
        AssertionError: there is no such way.
    """
    if new_strategy not in _strategies:
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}, expected one of {_strategies}")
    _Chosen.strategy = new_strategy
