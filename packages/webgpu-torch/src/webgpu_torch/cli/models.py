"""What every command on a model does first: the drop-in, the device, the seed."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

SOFTWARE_ADAPTERS = ("llvmpipe", "lavapipe", "swiftshader", "basic render")


def prepare(options: Namespace) -> tuple[Any, str]:
    """Install this library as torch, start the random numbers, and return torch and the device's name."""
    from .. import install_as_torch, webgpu

    install_as_torch()
    if not Path(options.model).exists() and options.model.startswith((".", "/")):
        raise SystemExit(f"error: there is no folder {options.model}")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    import webgpu_torch as torch

    torch.manual_seed(options.seed)
    device = options.device
    if device is None:
        real = webgpu.is_available() and not any(each in webgpu.get_device_name().lower() for each in SOFTWARE_ADAPTERS)
        device = "webgpu" if real else "cpu"
    return torch, device


def load(kind: Any, options: Namespace, device: str) -> Any:
    """Return a transformers model on a device, ready to evaluate."""
    model = kind.from_pretrained(options.model, dtype=options.dtype, attn_implementation=options.attn)
    return model.to(device).eval()
