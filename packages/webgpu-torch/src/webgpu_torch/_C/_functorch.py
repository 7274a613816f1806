"""What code asks of PyTorch's transforms of functions: whether operations without a rule for batches run one by one."""

_fallback = [True]


def _is_vmap_fallback_enabled() -> bool:
    """Return what was last asked for."""
    return _fallback[0]


def _set_vmap_fallback_enabled(enabled: bool) -> None:
    """Keep what is asked for, which changes nothing: nothing falls back."""
    _fallback[0] = enabled
