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


#: the libraries that can compute a model, by the names that commands print
OWN, OTHER = "webgpu_torch_models", "transformers"


def load_own(task: str, options: Namespace, device: str) -> tuple[Any, Any] | None:
    """Return the library's own model for a task, with its tokenizer; None where transformers is to compute it.

    That is where the architecture or the tokenizer is not known here, and where ``--attn`` says how transformers should do it.
    """
    if options.attn is not None:
        return None
    import webgpu_torch as torch

    try:
        from webgpu_torch_models.auto import architecture_of
        from webgpu_torch_models.hub import find_folder
        from webgpu_torch_models.tokenizer import AutoTokenizer

        found = architecture_of(find_folder(options.model, patterns=["config.json"]))
        folder = find_folder(options.model) if task in found.tasks else None
        tokenizer = None if folder is None else AutoTokenizer.from_pretrained(folder)
    except (ImportError, OSError, ValueError):
        # What is wrong with a name or a folder is told by transformers, which is asked next.
        return None
    if folder is None:
        return None
    model = found.model_class(task).from_pretrained(folder, dtype=chosen_dtype(torch, options), device=device)
    return model, tokenizer


def load(kind: Any, options: Namespace, device: str) -> Any:
    """Return a transformers model on a device, ready to evaluate."""
    import webgpu_torch as torch

    dtype = chosen_dtype(torch, options) or "auto"
    model = kind.from_pretrained(options.model, dtype=dtype, attn_implementation=options.attn or "sdpa")
    return model.to(device).eval()
