import torch
from safetensors.torch import load, save


def round_trip():
    return load(save({"a": torch.randn(3, 4), "b": torch.arange(5), "c": torch.ones(2, dtype=torch.bfloat16)}))
