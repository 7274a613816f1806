"""What every command on a model does first: the drop-in, the device, the seed."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import Any


def prepare(options: Namespace) -> tuple[Any, str]:
    """Install this library as torch, start the random numbers, and return torch and the device's name."""
    from webgpu_torch_drop_in import install_as_torch
    from webgpu_torch_drop_in.libraries import preferred_device

    install_as_torch()
    if not Path(options.model).is_dir() and options.model.startswith((".", "/", "~")):
        raise SystemExit(f"error: there is no folder {options.model}")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    import webgpu_torch as torch

    torch.manual_seed(options.seed)
    return torch, options.device or preferred_device()


def chosen_dtype(torch: Any, options: Namespace) -> Any:
    """Return the element type that was asked for; None for the checkpoint's own.

    Raises:
        SystemExit: there is no floating-point type of that name.
    """
    if options.dtype == "auto":
        return None
    kind: Any = getattr(torch, options.dtype, None)
    if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
        raise SystemExit(f"error: there is no type {options.dtype}; use float32, float16 or bfloat16")
    return kind


def load(kind: Any, options: Namespace, device: str) -> Any:
    """Return a transformers model on a device, ready to evaluate."""
    import webgpu_torch as torch

    dtype = chosen_dtype(torch, options) or "auto"
    model = kind.from_pretrained(options.model, dtype=dtype, attn_implementation=options.attn)
    return model.to(device).eval()
