"""Comparing results with PyTorch's tolerances for an operation and an element type."""

from __future__ import annotations

from typing import Any

from database import torch

DEFAULTS = {
    torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5), torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5), torch.complex128: (1e-7, 1e-7),
}  # fmt: skip
#: types whose results a wider computation can judge
WIDER = (torch.float16, torch.bfloat16, torch.float32, torch.complex64)
#: how many times the tolerance PyTorch's own error may be for a result with no larger an error to pass
LOST = 1000.0


def tolerances(entry: Any, dtype: Any) -> tuple[float, float]:
    """Return (relative, absolute): the type's defaults, or what PyTorch's common tests allow the operation where that is more.

    We are another implementation, as PyTorch's for its GPUs is: what it allows those counts too.
    """
    relative, absolute = DEFAULTS.get(dtype, (0.0, 0.0))
    for decoration in entry.decorators:
        if getattr(decoration, "cls_name", None) not in (None, "TestCommon"):
            continue
        if getattr(decoration, "device_type", None) not in (None, "cpu", "cuda"):
            continue
        for each in getattr(decoration, "decorators", [decoration]):
            allowed = getattr(each, "d", {})
            if isinstance(allowed, dict) and dtype in allowed:
                limit = allowed[dtype]
                if isinstance(limit, float):  # a precisionOverride: absolute only
                    absolute = max(absolute, limit)
                else:
                    relative, absolute = max(relative, limit.rtol), max(absolute, limit.atol)
    return relative, absolute


def nearer(actual: Any, expected: Any, exact: Any, relative: float, absolute: float) -> Any:
    """Return the expectation with what will do as well wherever the actual result has it.

    Cancellation, or a type of few digits for what lies between, can cost PyTorch's own result more digits than the tolerance allows: its
    float64 result, rounded, will do as well, and so will an element that is no farther from that than PyTorch's own element is, as long
    as PyTorch's lost no more than ``LOST`` times the tolerance.
    """
    if isinstance(expected, torch.Tensor) and isinstance(exact, torch.Tensor) and isinstance(actual, torch.Tensor):
        plain = all(each.layout is torch.strided for each in (actual, expected, exact))
        fits = plain and actual.shape == expected.shape == exact.shape and actual.dtype is expected.dtype
        if not fits or expected.dtype not in WIDER:
            return expected
        wanted, wide = expected.detach().resolve_conj().resolve_neg(), exact.detach().resolve_conj().resolve_neg()
        rounded = wide.to(expected.dtype)
        close = torch.isclose(actual, rounded, relative, absolute, equal_nan=True)
        error, own = (actual.to(wide.dtype) - wide).abs(), (wanted.to(wide.dtype) - wide).abs()
        # An error's last digits are those of the float64 result's own rounding.
        no_farther = (error.float() <= own.float()) & (own <= LOST * (absolute + relative * wide.abs()))
        return torch.where(close, rounded, torch.where(no_farther, actual, wanted))
    if isinstance(expected, list | tuple) and isinstance(exact, list | tuple) and isinstance(actual, list | tuple):
        if len(expected) == len(exact) == len(actual):
            return [nearer(*each, relative, absolute) for each in zip(actual, expected, exact, strict=True)]
    return expected


def same(actual: Any, expected: Any, relative: float, absolute: float, where: str = "") -> str | None:
    """Return what differs, None where nothing does."""
    if isinstance(expected, torch.Tensor):
        return _same_tensor(actual, expected, relative, absolute, where)
    if isinstance(expected, list | tuple):
        if not isinstance(actual, list | tuple) or len(actual) != len(expected):
            return f"{where}: {type(actual).__name__} of {_count(actual)} instead of {len(expected)}"
        for number, (one, other) in enumerate(zip(actual, expected, strict=True)):
            found = same(one, other, relative, absolute, f"{where}[{number}]")
            if found:
                return found
        return None
    if isinstance(expected, dict):
        return same(list(actual.values()), list(expected.values()), relative, absolute, where)
    if isinstance(expected, float | complex) and type(actual) is type(expected):
        relative, absolute = (relative, absolute) if relative else DEFAULTS[torch.float32]
        have, want = torch.tensor(actual, dtype=torch.complex128), torch.tensor(expected, dtype=torch.complex128)
        close = torch.isclose(have, want, relative, absolute, equal_nan=True)
        return None if close else f"{where}: {actual} instead of {expected}"
    return None if actual == expected else f"{where}: {actual!r} instead of {expected!r}"


def _count(value: Any) -> Any:
    return len(value) if hasattr(value, "__len__") else "?"


def _same_tensor(actual: Any, expected: Any, relative: float, absolute: float, where: str) -> str | None:
    if not isinstance(actual, torch.Tensor):
        return f"{where}: {type(actual).__name__} instead of a tensor"
    if tuple(actual.shape) != tuple(expected.shape):
        return f"{where}: shape {tuple(actual.shape)} instead of {tuple(expected.shape)}"
    if actual.dtype is not expected.dtype:
        return f"{where}: {actual.dtype} instead of {expected.dtype}"
    expected = expected.detach().resolve_conj().resolve_neg()
    if actual.layout is not expected.layout:
        return f"{where}: {actual.layout} instead of {expected.layout}"
    if expected.dtype not in DEFAULTS:
        relative = absolute = 0.0
    elif not relative:
        # Integers in, floats out.
        relative, absolute = DEFAULTS[expected.dtype]
    try:
        torch.testing.assert_close(actual, expected, rtol=relative, atol=absolute, equal_nan=True)
    except AssertionError as error:
        lines = [each.strip() for each in str(error).splitlines() if "ifference" in each or "Mismatched" in each]
        return f"{where}: " + "; ".join(lines)[:240]
    return None
