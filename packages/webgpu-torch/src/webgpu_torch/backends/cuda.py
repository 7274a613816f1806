"""``torch.backends.cuda``: absent; its switches are kept and change nothing."""

from __future__ import annotations


class _Switches:
    """Switches of CUDA products."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    fp32_precision = "ieee"


matmul = _Switches()


def is_built() -> bool:
    """Return False."""
    return False


def flash_sdp_enabled() -> bool:
    """Return False: attention is this library's own."""
    return False


def mem_efficient_sdp_enabled() -> bool:
    """Return False: attention is this library's own."""
    return False


def math_sdp_enabled() -> bool:
    """Return True: attention follows the formula."""
    return True


def cudnn_sdp_enabled() -> bool:
    """Return False: attention is this library's own."""
    return False


def enable_flash_sdp(enabled: bool) -> None:
    """Change nothing."""


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Change nothing."""


def enable_math_sdp(enabled: bool) -> None:
    """Change nothing."""


def enable_cudnn_sdp(enabled: bool) -> None:
    """Change nothing."""


#: which library of CUDA's a program asked for, by purpose
_preferred = {"blas": "default", "linalg": "default"}


def _prefer(purpose: str, backend: str | None) -> str:
    if backend is not None:
        _preferred[purpose] = backend
    return _preferred[purpose]


def preferred_blas_library(backend: str | None = None) -> str:
    """Return which library of products was asked for, after asking for another one if it is given; it changes nothing."""
    return _prefer("blas", backend)


def preferred_linalg_library(backend: str | None = None) -> str:
    """Return which library of decompositions was asked for, after asking for another one if it is given; it changes nothing."""
    return _prefer("linalg", backend)
