"""Writes a checkpoint in shards, or loads one and prints as JSON how much memory that took.

write FOLDER LAYERS SHARD; load FOLDER DTYPE: on the processor, what the process has; host FOLDER DTYPE QUANTIZE: to the GPU,
what tensors and Python have of the host's memory.
"""

from __future__ import annotations

import json
import resource
import sys
import tracemalloc

import webgpu_torch_core as torch
from webgpu_torch_core.record.devices import engine_for
from webgpu_torch_models import AutoModelForCausalLM
from webgpu_torch_models.decoder_families import LlamaConfig, LlamaForCausalLM

#: matrices of 4 MiB, 7 in each layer
SIZES = {"hidden_size": 1024, "intermediate_size": 1024, "num_attention_heads": 4, "vocab_size": 64}


def most() -> int:
    """Return the most bytes that the process had in memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def write(folder: str, layers: str, shard: str) -> None:
    """Write a checkpoint of so many layers in shards of so many bytes."""
    model = LlamaForCausalLM(LlamaConfig(**SIZES, num_hidden_layers=int(layers)))
    model.save_pretrained(folder, max_shard_size=int(shard))


def load(folder: str, dtype: str) -> None:
    """Print what loading takes on the processor."""
    # What the first large kernels make is there before and after.
    for kind in (torch.float16, torch.bfloat16):
        torch.ones(1024, 1024, device="cpu").to(kind)[0, :2].tolist()
    before = most()
    model = AutoModelForCausalLM.from_pretrained(folder, device="cpu", dtype=getattr(torch, dtype))
    sizes = [each.nbytes for each in model.parameters()]
    print(json.dumps({"taken": most() - before, "model": sum(sizes)}))


def host(folder: str, dtype: str, quantize: str) -> None:
    """Print the most bytes that tensors and Python have at once of the host's memory while a model is loaded to the GPU."""
    options = {
        "dtype": None if dtype == "None" else getattr(torch, dtype),
        "quantize": None if quantize == "None" else quantize,
    }
    processor, taken = engine_for(torch.device("cpu")).device, [0]
    allocate = processor.allocate

    def counted(nbytes: int) -> object:
        buffer = allocate(nbytes)
        taken.append(processor.memory_allocated())
        return buffer

    # Kernels and plans are there before and after.
    AutoModelForCausalLM.from_pretrained(folder, device="webgpu", **options)
    processor.allocate = counted
    tracemalloc.start()
    model = AutoModelForCausalLM.from_pretrained(folder, device="webgpu", **options)
    most_at_once = max(taken) + tracemalloc.get_traced_memory()[1]
    print(json.dumps({"taken": most_at_once, "encoded": len(list(model.buffers()))}))


if __name__ == "__main__":
    {"write": write, "load": load, "host": host}[sys.argv[1]](*sys.argv[2:])
