"""Train a character-level LSTM on the texts in ``examples/data``.

python examples/char_lstm.py --device webgpu
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import recorded_curves
import webgpu_torch as torch

nn = torch.nn
DATA = Path(__file__).resolve().parent / "data"
STEPS, LENGTH, BATCH, HIDDEN = 120, 32, 16, 64


class CharacterModel(nn.Module):
    """Says which character comes next, from all characters so far."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 32)
        self.lstm = nn.LSTM(32, HIDDEN, num_layers=2, batch_first=True)
        self.head = nn.Linear(HIDDEN, vocabulary)

    def forward(self, characters: Any, state: Any = None) -> Any:
        """Return scores [n, length, vocabulary] of the next characters and the state to go on from."""
        output, state = self.lstm(self.embedding(characters), state)
        return self.head(output), state


def numbered_text(device: str) -> tuple[Any, int]:
    """Return the text as numbers, and how many different ones there are."""
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in sorted(DATA.glob("*.md")))
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    return torch.tensor([numbers[character] for character in text]).to(device), len(numbers)


def measured(model: Any, windows: Any) -> Any:
    """Return the mean loss of predicting every character of the windows from those before it."""
    scores, _ = model(windows[:, :-1])
    return nn.functional.cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten())


def train(device: str) -> Generator[Any, None, dict[str, float]]:
    """Train the model; yield every step's loss and return that on the last tenth of the text, which it never saw."""
    torch.manual_seed(0)
    text, vocabulary = numbered_text(device)
    model: Any = CharacterModel(vocabulary).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    seen, offsets = len(text) * 9 // 10, torch.arange(LENGTH + 1)
    for _ in range(STEPS):
        starts = torch.randint(0, seen - LENGTH, (BATCH, 1))
        loss = measured(model, text[(starts + offsets).to(device)])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.detach()
    rest = text[seen:]
    with torch.no_grad():
        windows = rest[: len(rest) // LENGTH * LENGTH].reshape(-1, LENGTH)
        return {"loss on unseen text": measured(model, windows).item()}


if __name__ == "__main__":
    sys.exit(recorded_curves.main(train))
