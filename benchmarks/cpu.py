"""The CPU backend next to PyTorch: single operations and training steps, one thread on both sides, in one run.

Run with the threads of both fixed before NumPy loads: ``OPENBLAS_NUM_THREADS=1 python benchmarks/cpu.py [name …]``. Prints the
median times in milliseconds, their ratio, and the geometric mean of the ratios.
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import math  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

import torch as pytorch  # noqa: E402
import webgpu_torch as ours  # noqa: E402
from webgpu_torch_core.record.devices import synchronize  # noqa: E402

THREADS = int(os.environ["OPENBLAS_NUM_THREADS"])
WORDS = 1 << 20


def fills(t):
    """Random numbers: a million each, and draws by weight."""
    weights, rates = t.rand(64, 5000), t.rand(WORDS // 16) * 5
    return {
        "rand": lambda: t.rand(WORDS),
        "randn": lambda: t.randn(WORDS),
        "bernoulli_": lambda: t.empty(WORDS).bernoulli_(0.5),
        "bernoulli of probabilities": lambda: t.bernoulli(weights),
        "exponential_": lambda: t.empty(WORDS).exponential_(),
        "randint": lambda: t.randint(0, 1000, (WORDS,)),
        "randperm": lambda: t.randperm(WORDS),
        "multinomial": lambda: t.multinomial(weights, 1),
        "multinomial with replacement": lambda: t.multinomial(weights, 100, replacement=True),
        "poisson": lambda: t.poisson(rates),
    }


def convolutions(t):
    """Convolutions forward."""
    functional = t.nn.functional
    cases = {
        "conv2d 8x32x56 to 64": ((8, 32, 56, 56), (64, 32, 3, 3), {"padding": 1}),
        "conv2d 1x1": ((4, 256, 28, 28), (64, 256, 1, 1), {}),
        "conv2d stride 2": ((1, 3, 224, 224), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
        "depthwise 8x32x56": ((8, 32, 56, 56), (32, 1, 3, 3), {"padding": 1, "groups": 32}),
        "depthwise 4x240x14": ((4, 240, 14, 14), (240, 1, 5, 5), {"padding": 2, "groups": 240}),
        "grouped 4x64x28": ((4, 64, 28, 28), (64, 16, 3, 3), {"padding": 1, "groups": 4}),
    }
    return {
        name: (lambda x=t.randn(shape), w=t.randn(weight), options=options: functional.conv2d(x, w, **options))
        for name, (shape, weight, options) in cases.items()
    }


def operations(t):
    """Operations that NumPy has no single function for, and chains that fuse."""
    functional = t.nn.functional
    rows, long, three = t.randn(256, 5000), t.randn(1 << 20), t.randn(3)
    points, image, grid = t.randn(512, 64), t.randn(4, 16, 32, 32), t.rand(4, 32, 32, 2) * 2 - 1
    queries = t.randn(2, 8, 256, 64)
    return {
        "add of three elements": lambda: three + three,
        "chain of arithmetic": lambda: (long * 2 + 1).relu() * long - long,
        "gelu": lambda: functional.gelu(long),
        "topk": lambda: rows.topk(10).values,
        "kthvalue": lambda: rows.kthvalue(2500).values,
        "median": lambda: rows.median(1).values,
        "sort": lambda: rows.sort().values,
        "cdist": lambda: t.cdist(points, points),
        "grid_sample": lambda: functional.grid_sample(image, grid, align_corners=False),
        "stft": lambda: t.stft(long[: 1 << 17], 512, window=t.ones(512), return_complex=True).abs(),
        "scaled_dot_product_attention": lambda: functional.scaled_dot_product_attention(queries, queries, queries),
        "softmax": lambda: rows.softmax(1),
        "matmul": lambda: points @ points.T,
    }


def training(t):
    """Training steps."""
    nn, functional = t.nn, t.nn.functional

    def step(model, x, labels, reduce=lambda y: y):
        optimizer = t.optim.AdamW(model.parameters())

        def run():
            loss = functional.cross_entropy(reduce(model(x)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return run

    perceptron = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    digits = nn.Sequential(
        nn.Conv2d(1, 16, 3),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(4608, 10),
    )
    recurrent = nn.LSTM(64, 128, batch_first=True)
    encoder = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    separable = nn.Sequential(
        nn.Conv2d(32, 32, 3, padding=1, groups=32),
        nn.BatchNorm2d(32),
        nn.Hardswish(),
        nn.Conv2d(32, 64, 1),
        nn.BatchNorm2d(64),
    )
    labels = t.randint(0, 10, (32,))
    return {
        "MLP step": step(perceptron, t.randn(32, 784), labels),
        "MNIST CNN step": step(digits, t.randn(32, 1, 28, 28), labels),
        "LSTM step": step(recurrent, t.randn(32, 40, 64), labels, lambda y: y[0][:, -1]),
        "Transformer step": step(encoder, t.randn(32, 32, 128), labels, lambda y: y.mean(1)),
        "separable convolution step": step(separable, t.randn(32, 32, 28, 28), labels, lambda y: y.mean((2, 3))),
    }


def milliseconds(call, wait, repeats: int = 7) -> float:
    """Return the median time of a call and its wait, after two that warm up."""
    found = []
    for number in range(repeats + 2):
        start = time.perf_counter()
        result = call()
        wait()
        del result
        if number >= 2:
            found.append((time.perf_counter() - start) * 1e3)
    return statistics.median(found)


def main() -> None:
    """Print a row for each job whose name holds one of the arguments (all without any)."""
    pytorch.set_num_threads(THREADS)
    print(f"{THREADS} thread(s), milliseconds{'':18} ours   PyTorch   ratio")
    ratios = []
    for group in (fills, convolutions, operations, training):
        with ours.device("cpu"):
            mine = group(ours)
        for name, theirs in group(pytorch).items():
            if sys.argv[1:] and not any(each in name for each in sys.argv[1:]):
                continue
            with ours.device("cpu"):
                own = milliseconds(mine[name], lambda: synchronize("cpu"))
            other = milliseconds(theirs, lambda: None)
            ratios.append(own / other)
            print(f"{name:34} {own:10.3f} {other:10.3f} {own / other:7.2f}", flush=True)
    print(f"geometric mean of {len(ratios)}: {math.exp(statistics.fmean(map(math.log, ratios))):.2f}")


if __name__ == "__main__":
    main()
