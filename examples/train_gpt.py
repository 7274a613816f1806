"""Train a small GPT-2 on the bytes of the texts in ``examples/data``; ``demo.py`` trains with the same code.

    python examples/train_gpt.py --device webgpu

Its curve was recorded with PyTorch and transformers, which has the same model.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import recorded_curves
import webgpu_torch as torch
from webgpu_torch_models import GPT2Config, GPT2LMHeadModel

DATA = Path(__file__).resolve().parent / "data"
SIZE = {"n_layer": 2, "n_embd": 64, "n_head": 4, "context": 32, "batch": 8}
STEPS = 200
LEARNING_RATE = 3e-3


class Trainer:
    """A new model of a size, its optimiser, and the text as tokens on the device."""

    def __init__(self, size: dict[str, int], vocabulary: int, ids: list[int], device: Any) -> None:
        torch.manual_seed(0)
        self.context, self.batch = size["context"], size["batch"]
        config = GPT2Config(
            vocab_size=vocabulary,
            n_positions=2 * self.context,
            n_embd=size["n_embd"],
            n_layer=size["n_layer"],
            n_head=size["n_head"],
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        )
        self.model: Any = GPT2LMHeadModel(config).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95))
        self.data = torch.tensor(ids, dtype=torch.int64).to(device)
        self.offsets = torch.arange(self.context + 1, device=device)
        self.device = device

    def draw_weights(self, seed: int) -> None:
        """Draw the matrices again, in an order that does not depend on who wrote the model."""
        torch.manual_seed(seed)
        weights = sorted((name, each) for name, each in self.model.named_parameters() if each.ndim == 2)
        for _, weight in weights:
            with torch.no_grad():
                weight.copy_(torch.nn.init.normal_(torch.empty(weight.shape), std=0.02))

    def step(self, rate: float) -> Any:
        """Learn from one batch of random windows; return the loss, still on the device."""
        starts = torch.randint(0, len(self.data) - self.context - 1, (self.batch, 1)).to(self.device)
        windows = self.data[starts + self.offsets]
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.zero_grad()
        loss = self.model(windows, labels=windows).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()


def learning_rate(step: int, share: float) -> float:
    """Return the rate of a step, counted from 1, when a share of the training is done: a warm-up, then a cosine."""
    return LEARNING_RATE * min(1.0, step / 20) * (0.05 + 0.95 * (1 + math.cos(math.pi * share)) / 2)


def train(device: str) -> Generator[Any, None, dict[str, float]]:
    """Train the model; yield every step's loss."""
    text = b"\n\n".join(path.read_bytes() for path in sorted(DATA.glob("*.md")))
    trainer = Trainer(SIZE, 256, list(text), device)
    trainer.draw_weights(1)
    for step in range(STEPS):
        yield trainer.step(learning_rate(step + 1, step / STEPS))
    return {}


if __name__ == "__main__":
    sys.exit(recorded_curves.main(train))
