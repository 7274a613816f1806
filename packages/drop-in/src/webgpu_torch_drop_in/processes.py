"""``import torch`` in processes that this one spawns: what Python sends them first has them install this library, too."""

from __future__ import annotations

import functools
import multiprocessing.spawn
from typing import Any


def _installed() -> bool:
    """Run in the new process, before it imports the program."""
    from . import install_as_torch

    install_as_torch()
    return True


class _Install:
    """Something whose reading installs."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _installed, ()


def install_in_spawned() -> None:
    """Have every process that ``multiprocessing`` starts from here on, but for forked ones, install this library."""
    module: Any = multiprocessing.spawn
    original = module.get_preparation_data

    @functools.wraps(original)
    def get_preparation_data(name: str) -> dict[str, Any]:
        return {"webgpu_torch": _Install(), **original(name)}

    module.get_preparation_data = get_preparation_data
