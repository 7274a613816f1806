"""Small models written by transformers, and values moved between PyTorch and this library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import torch
import transformers
import webgpu_torch_core as ours


def to_ours(value: torch.Tensor, device: str = "cpu") -> Any:
    """Return a copy of an oracle tensor as a tensor of this library."""
    return ours.from_numpy(value.detach().numpy().copy()).to(device)


def to_torch(value: Any) -> torch.Tensor:
    """Return a copy of a tensor of this library as an oracle tensor."""
    return torch.from_numpy(numpy.array(value.detach().cpu().numpy()))


def gpt2(folder: Path, **options: Any) -> transformers.GPT2LMHeadModel:
    """Write a tiny GPT-2 into the folder and return it, in evaluation mode and with spread-out logits."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 97, "n_positions": 320, "n_embd": 32, "n_layer": 2, "n_head": 4}
    config = transformers.GPT2Config(**{**sizes, "eos_token_id": None, "bos_token_id": None, **options})
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.02)
    model.save_pretrained(folder)
    return model
