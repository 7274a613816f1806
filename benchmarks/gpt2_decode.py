"""GPT-2 124M, float32, batch 1: time per generated token, captured, next to PyTorch eager (transformers)."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import webgpu_torch_core as torch
from common import device, peer, wait_ours
from webgpu_torch_core.record.devices import canonical_device, engine_for
from webgpu_torch_models.generation import Decoder, GenerationConfig
from webgpu_torch_models.gpt2 import GPT2Config, GPT2LMHeadModel

LAYERS = int(sys.argv[1]) if len(sys.argv) > 1 else 12
TOKENS = int(sys.argv[2]) if len(sys.argv) > 2 else 100


def ours() -> float:
    """Return seconds per token of our captured decoding step."""
    with torch.device(device()), torch.no_grad():
        model = GPT2LMHeadModel(GPT2Config(n_layer=LAYERS)).eval()
        prompt = torch.zeros((1, 8), dtype=torch.int64)
        decoder = Decoder(model, GenerationConfig(max_new_tokens=512), 1, 512, None, True)
        token = decoder.prefill(prompt)
        for _ in range(8):
            token = decoder.advance(token)
        wait_ours()
        engine = engine_for(canonical_device(device()))
        start = time.perf_counter()
        for _ in range(TOKENS):
            token = decoder.advance(token)
        issued = time.perf_counter() - start
        wait_ours()
        total = time.perf_counter() - start
        print(
            f"host time per token {issued / TOKENS * 1e3:.3f} ms; {engine.statistics}; {getattr(engine.device, 'statistics', {})}"
        )
    return total / TOKENS


def theirs(pytorch) -> float:
    """Return seconds per token of PyTorch eager with transformers' own cache."""
    from transformers import GPT2Config as PeerConfig
    from transformers import GPT2LMHeadModel as PeerModel

    model = PeerModel(PeerConfig(n_layer=LAYERS)).cuda().eval()
    token = pytorch.zeros((1, 8), dtype=pytorch.int64, device="cuda")
    past = None
    with pytorch.no_grad():
        for step in range(TOKENS + 10):
            if step == 10:
                pytorch.cuda.synchronize()
                start = time.perf_counter()
            out = model(token, past_key_values=past, use_cache=True)
            past = out.past_key_values
            token = out.logits[:, -1:].argmax(-1)
        pytorch.cuda.synchronize()
    return (time.perf_counter() - start) / TOKENS


def main() -> None:
    """Print both times and their ratio."""
    mine = ours()
    line = f"GPT-2 decode, {LAYERS} layers: {mine * 1e3:.3f} ms per token"
    pytorch = peer()
    if pytorch is not None:
        other = theirs(pytorch)
        line += f" | PyTorch eager {other * 1e3:.3f} ms | ratio {other / mine:.2f}"
    print(line)


if __name__ == "__main__":
    main()
