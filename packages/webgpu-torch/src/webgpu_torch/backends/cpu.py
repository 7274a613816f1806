"""``torch.backends.cpu``: what the processor can do."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PROCESSOR = Path("/proc/cpuinfo")


@cache
def get_cpu_capability() -> str:
    """Return ``"AVX512"``, ``"AVX2"`` or, on other processors and where the system does not tell, ``"DEFAULT"``.

    Libraries choose by it whether images of bytes are resized as bytes; NumPy chooses its own instructions.
    """
    known = set(_PROCESSOR.read_text(encoding="utf-8", errors="replace").split()) if _PROCESSOR.exists() else set()
    return (
        "AVX512"
        if {"avx512f", "avx512vl", "avx512bw", "avx512dq", "fma"} <= known
        else "AVX2"
        if {"avx2", "fma"} <= known
        else "DEFAULT"
    )
