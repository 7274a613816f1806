"""What every command on a model does first: the drop-in, the device, the seed."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webgpu_torch_models.pipelines.base import Pipeline


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
OWN, OTHER, PICTURES = "webgpu_torch_models", "transformers", "diffusers"


def load_own(task: str, options: Namespace, device: str) -> Pipeline | None:
    """Return the library's own model for a task, with what reads its inputs; None where transformers is to compute it.

    That is where the architecture, the tokenizer or what else reads inputs is not known here, and where ``--attn`` says how
    transformers should do it.
    """
    if options.attn is not None:
        return None
    import webgpu_torch as torch

    try:
        from webgpu_torch_models.auto import architecture_of, model_class_for
        from webgpu_torch_models.hub import find_folder
        from webgpu_torch_models.pipelines import TASKS

        kind = TASKS[task]
        model = model_class_for(architecture_of(find_folder(options.model, patterns=["config.json"])), kind.model_tasks)
        folder = find_folder(options.model)
        readers = kind.readers(folder, {})
    except (ImportError, OSError, ValueError):
        # What is wrong with a name or a folder is told by transformers, which is asked next.
        return None
    return kind(task, model.from_pretrained(folder, dtype=chosen_dtype(torch, options), device=device), readers)


def tell_library(options: Namespace, library: str) -> None:
    """Say which library computed, where the results do not."""
    if not options.json:
        print(f"[by {library}]", file=sys.stderr)


def load(kind: Any, options: Namespace, device: str) -> Any:
    """Return a transformers model on a device, ready to evaluate."""
    import webgpu_torch as torch

    dtype = chosen_dtype(torch, options) or "auto"
    model = kind.from_pretrained(options.model, dtype=dtype, attn_implementation=options.attn or "sdpa")
    return model.to(device).eval()
