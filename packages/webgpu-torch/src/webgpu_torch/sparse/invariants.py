"""The switch for checks of positions."""

from __future__ import annotations

import contextlib


class check_sparse_tensor_invariants(contextlib.ContextDecorator):
    """A switch for checks of positions, also for a block or a function: it is read back as it was set; positions are always checked.

    Args:
        enable: whether it is on in the block.
    """

    _enabled = False

    def __init__(self, enable: bool = True) -> None:
        self._wanted = enable
        self._before: list[bool] = []

    @staticmethod
    def is_enabled() -> bool:
        """Return whether it is on."""
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        """Turn it on."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Turn it off."""
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self) -> None:
        self._before.append(self.is_enabled())
        check_sparse_tensor_invariants._enabled = self._wanted

    def __exit__(self, *_: object) -> None:
        check_sparse_tensor_invariants._enabled = self._before.pop()
