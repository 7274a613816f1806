"""Prints as JSON how many kernels a captured token takes for each layer, by profile of an adapter and by network.

The adapters only check what they are told to do, so that nothing is computed and any of them can be had.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "backend_wgpu" / "golden"))

import webgpu_torch_core as torch
from profiles import PROFILES
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.gpu.checking import CheckingRuntime
from webgpu_torch_core.backend.plugins import registry
from webgpu_torch_core.record.devices import engine_for
from webgpu_torch_models.causal import CausalLM
from webgpu_torch_models.decoder_families import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from webgpu_torch_models.generation import Decoder
from webgpu_torch_models.gpt2 import GPT2Config, GPT2LMHeadModel
from webgpu_torch_models.linear import encode_linears

SIZES = {
    "vocab_size": 512, "hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16, "num_key_value_heads": 8,
    "head_dim": 128,
}  # fmt: skip
FAMILIES: dict[str, Callable[[int], CausalLM]] = {
    "gpt2": lambda layers: GPT2LMHeadModel(GPT2Config(vocab_size=512, n_layer=layers)),
    "llama": lambda layers: LlamaForCausalLM(LlamaConfig(**SIZES, num_hidden_layers=layers)),
    "qwen2": lambda layers: Qwen2ForCausalLM(Qwen2Config(**SIZES, num_hidden_layers=layers)),
    "qwen3": lambda layers: Qwen3ForCausalLM(Qwen3Config(**SIZES, num_hidden_layers=layers)),
    "gemma3": lambda layers: Gemma3ForCausalLM(Gemma3TextConfig(**SIZES, num_hidden_layers=layers)),
    "phi3": lambda layers: Phi3ForCausalLM(Phi3Config(**SIZES, num_hidden_layers=layers)),
}


def dispatches(family: str, layers: int, device: torch.device, quantize: str | None) -> int:
    """Return how many kernels a token takes."""
    with torch.device(device), torch.no_grad():
        model = FAMILIES[family](layers).eval()
        if quantize is not None:
            encode_linears(model, dict(model.state_dict()), quantize, device, model.active_ties())
        config = model.generation_config.changed(do_sample=False, num_beams=1)
        decoder = Decoder(model, config, 1, 640, compile=True)
        token = decoder.prefill(torch.zeros((1, 16), dtype=torch.int64))
        statistics = engine_for(device).device
        for _ in range(3):
            token = decoder.advance(token)
            torch.webgpu.synchronize()
        before = statistics.statistics["dispatches"]
        decoder.advance(token)
        torch.webgpu.synchronize()
        return statistics.statistics["dispatches"] - before


def main() -> None:
    """Count for every family on every profile."""
    registry.load()
    registry.backends["webgpu"] = WgpuBackend(CheckingRuntime(list(PROFILES.values())))
    found: dict[str, dict[str, int]] = {}
    for number, profile in enumerate(PROFILES):
        device = torch.device("webgpu", number)
        counts = found[profile] = {}
        for family in FAMILIES:
            counts[family] = dispatches(family, 5, device, None) - dispatches(family, 4, device, None)
        counts["qwen3 int4"] = dispatches("qwen3", 5, device, "int4") - dispatches("qwen3", 4, device, "int4")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
