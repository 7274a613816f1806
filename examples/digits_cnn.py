"""Train a small convolutional network on scikit-learn's handwritten digits.

Needs ``pip install scikit-learn``, which brings the 1797 images of 8×8 pixels along: nothing is downloaded.

    python examples/digits_cnn.py --device webgpu
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import recorded_curves
import webgpu_torch as torch
from digits_mlp import fit

nn, F = torch.nn, torch.nn.functional
EPOCHS = 10


class ConvolutionalNetwork(nn.Module):
    """Two convolutions with a pooling after each, and a linear classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.classifier = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images: Any) -> Any:
        """Return ten scores for each of the images (batch, 1, 8, 8)."""
        hidden = F.max_pool2d(torch.relu(self.first(images)), 2)
        hidden = F.max_pool2d(torch.relu(self.second(hidden)), 2)
        return self.classifier(hidden.flatten(1))


def train(device: str) -> Generator[Any, None, dict[str, float]]:
    """Train the network; yield every step's loss."""
    torch.manual_seed(0)
    model = ConvolutionalNetwork().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return (yield from fit(model, optimizer, EPOCHS, device))


if __name__ == "__main__":
    sys.exit(recorded_curves.main(train))
