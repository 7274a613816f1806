"""Anomaly mode: every node remembers the call that recorded it, and a gradient that is not a number is an error."""

from __future__ import annotations

from typing import Any

from ..notices import warn
from ..record.node import Node, anomaly


class detect_anomaly:
    """Search the backward pass for NaN and name the forward call of a node that fails, inside a ``with`` block.

    Args:
        check_nan: raise where a node's result is not a number.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.prev = anomaly.enabled
        self.check_nan = check_nan
        self.prev_check_nan = anomaly.check_nan
        warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
        )

    def __enter__(self) -> None:
        anomaly.enabled, anomaly.check_nan = True, self.check_nan

    def __exit__(self, *_: object) -> None:
        anomaly.enabled, anomaly.check_nan = self.prev, self.prev_check_nan


class set_detect_anomaly:
    """Switch anomaly mode on or off: at once, and undone on exit when used as a context manager.

    Args:
        mode: whether to switch it on.
        check_nan: raise where a node's result is not a number.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.prev = anomaly.enabled
        self.prev_check_nan = anomaly.check_nan
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        """Keep what the constructor set."""

    def __exit__(self, *_: object) -> None:
        anomaly.enabled, anomaly.check_nan = self.prev, self.prev_check_nan


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off."""
    anomaly.enabled, anomaly.check_nan = bool(mode), bool(check_nan)


def is_anomaly_enabled() -> bool:
    """Return whether anomaly mode is on."""
    return anomaly.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether anomaly mode looks for NaN."""
    return anomaly.check_nan


def tell_place(node: Node) -> None:
    """Warn with the forward calls that recorded a node that failed, and the node in whose backward it was recorded."""
    _tell(f"Error detected in {node.name()}.", "caused the error", node)
    parent: Any = node.metadata.get("parent_")
    while parent is not None:
        _tell(f"\n\nPrevious calculation was induced by {parent.name()}.", "induced the previous calculation", parent)
        parent = parent.metadata.get("parent_")


def _tell(what: str, did: str, node: Node) -> None:
    lines = node.metadata.get("traceback_")
    if lines is None:
        text = f"{what} No forward pass information available. Enable detect anomaly during forward pass for more information."
    else:
        text = f"{what} Traceback of forward call that {did}:\n{''.join(lines)}"
    warn(text)
