"""Writes a checkpoint in shards (write FOLDER LAYERS), or loads one and prints as JSON how much memory that took (load FOLDER DTYPE)."""

from __future__ import annotations

import json
import resource
import sys

import webgpu_torch_core as torch
from webgpu_torch_models import AutoModelForCausalLM
from webgpu_torch_models.decoder_families import LlamaConfig, LlamaForCausalLM

#: matrices of 4 MiB, 7 in each layer
SIZES = {"hidden_size": 1024, "intermediate_size": 1024, "num_attention_heads": 4, "vocab_size": 64}


def most() -> int:
    """Return the most bytes that the process had in memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(what: str, folder: str, given: str) -> None:
    """Write the checkpoint, or load it."""
    if what == "write":
        LlamaForCausalLM(LlamaConfig(**SIZES, num_hidden_layers=int(given))).save_pretrained(
            folder, max_shard_size="20MB"
        )
        return
    # What the first large kernels make is there before and after.
    for kind in (torch.float16, torch.bfloat16):
        torch.ones(1024, 1024, device="cpu").to(kind)[0, :2].tolist()
    before = most()
    model = AutoModelForCausalLM.from_pretrained(folder, device="cpu", dtype=getattr(torch, given))
    sizes = [each.nbytes for each in model.parameters()]
    print(json.dumps({"taken": most() - before, "model": sum(sizes)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
