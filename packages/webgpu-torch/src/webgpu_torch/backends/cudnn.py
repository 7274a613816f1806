"""``torch.backends.cudnn``: absent; its switches are kept and change nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

enabled = False
benchmark = False
deterministic = False
allow_tf32 = False
fp32_precision = "ieee"


def is_available() -> bool:
    """Return False."""
    return False


def version() -> int | None:
    """Return None."""
    return None


@contextlib.contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """Change nothing for a while."""
    yield
