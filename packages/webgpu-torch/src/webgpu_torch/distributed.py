"""``torch.distributed`` in a build without it: one process, nothing to talk to."""

from __future__ import annotations


def is_available() -> bool:
    """Return False: there is no distributed package."""
    return False


def is_initialized() -> bool:
    """Return False."""
    return False


def is_torchelastic_launched() -> bool:
    """Return False."""
    return False
