"""Train a small perceptron on scikit-learn's handwritten digits.

Needs ``pip install scikit-learn``, which brings the 1797 images of 8×8 pixels along: nothing is downloaded.

    python examples/digits_mlp.py --device webgpu
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import recorded_curves
import webgpu_torch as torch
from sklearn.datasets import load_digits

nn, data = torch.nn, torch.utils.data
EPOCHS = 10


def digits() -> list[Any]:
    """Return the images as pixels in [0, 1] with their labels: 1437 to train on and 360 to test with."""
    bundle = load_digits()
    pixels = torch.tensor(bundle.images / 16, dtype=torch.float32).unsqueeze(1)
    dataset = data.TensorDataset(pixels, torch.tensor(bundle.target, dtype=torch.int64))
    return data.random_split(dataset, [1437, 360], generator=torch.Generator().manual_seed(1))


def accuracy(model: Any, dataset: Any, device: str) -> float:
    """Return the share of a data set's images that the model names rightly."""
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in data.DataLoader(dataset, batch_size=90):
            right += (model(images.to(device)).argmax(1) == labels.to(device)).sum().item()
    model.train()
    return right / len(dataset)


def fit(model: Any, optimizer: Any, epochs: int, device: str) -> Generator[Any, None, dict[str, float]]:
    """Train on the digits; yield every step's loss and return the accuracy on images never seen."""
    training, test = digits()
    loader = data.DataLoader(training, batch_size=64, shuffle=True, drop_last=True)
    measure = nn.CrossEntropyLoss()
    for _ in range(epochs):
        for images, labels in loader:
            loss = measure(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.detach()
    return {"test accuracy": accuracy(model, test, device)}


def train(device: str) -> Generator[Any, None, dict[str, float]]:
    """Train the perceptron; yield every step's loss."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    return (yield from fit(model, optimizer, EPOCHS, device))


if __name__ == "__main__":
    sys.exit(recorded_curves.main(train))
