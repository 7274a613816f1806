"""GPT-2 124M, float32: time per training step (forward, backward, AdamW), next to PyTorch eager (transformers)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import webgpu_torch_core as torch
from common import device, peer, report, wait_ours
from webgpu_torch_models.gpt2 import GPT2Config, GPT2LMHeadModel
from webgpu_torch_nn.optim import AdamW

LAYERS = int(sys.argv[1]) if len(sys.argv) > 1 else 12
BATCH = int(sys.argv[2]) if len(sys.argv) > 2 else 8
LENGTH = int(sys.argv[3]) if len(sys.argv) > 3 else 512
STEPS = 10
SIZES = {"n_layer": LAYERS, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def timed(step: Callable[[Any], Any], ids: Any, wait: Callable[[], None]) -> float:
    """Return seconds per step after a warm-up."""
    for _ in range(4):
        step(ids)
    wait()
    start = time.perf_counter()
    for _ in range(STEPS):
        step(ids)
    wait()
    return (time.perf_counter() - start) / STEPS


def training_step(model: Any, optimizer: Any) -> Callable[[Any], Any]:
    """Return one step of the training loop, the same text for both sides."""

    def step(ids: Any) -> Any:
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def main() -> None:
    """Print both times and their ratio, uncaptured and captured."""
    with torch.device(device()):
        model = GPT2LMHeadModel(GPT2Config(**SIZES))
        ids = torch.randint(0, 50257, (BATCH, LENGTH))
    step = training_step(model, AdamW(model.parameters(), lr=1e-4))
    eager = timed(step, ids, wait_ours)
    start = time.perf_counter()
    step(ids)
    print(f"host time per step, uncaptured {(time.perf_counter() - start) * 1e3:.1f} ms", flush=True)
    wait_ours()
    captured = timed(torch.compile(step), ids, wait_ours)
    pytorch = peer()
    other = None
    if pytorch is not None:
        from transformers import GPT2Config as PeerConfig
        from transformers import GPT2LMHeadModel as PeerModel

        twin = PeerModel(PeerConfig(**SIZES)).cuda()
        numbers = pytorch.randint(0, 50257, (BATCH, LENGTH), device="cuda")
        optimizer = pytorch.optim.AdamW(twin.parameters(), lr=1e-4)
        other = timed(training_step(twin, optimizer), numbers, pytorch.cuda.synchronize)
    flops = 6 * BATCH * LENGTH * (124_439_808 if LAYERS == 12 else sum(each.numel() for each in model.parameters()))
    name = f"GPT-2 {LAYERS} layers {BATCH}x{LENGTH}"
    report(f"{name} uncaptured", eager, other, flops / 1e12, "TFLOP/s")
    report(f"{name} captured", captured, other, flops / 1e12, "TFLOP/s")


if __name__ == "__main__":
    main()
