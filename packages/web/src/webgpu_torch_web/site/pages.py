"""The programs of the conformance page and the benchmark page."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from types import ModuleType

from webgpu_torch_core import plugins
from webgpu_torch_core.backend.interface import CannotWaitError
from webgpu_torch_core.tensors.tensor import Tensor

from .expectations import Expectations
from .page import say

#: rounds of which a benchmark tells the median, and seconds after which it takes no further one
ROUNDS, PATIENCE = 9, 4.0


def device() -> dict[str, str]:
    """Return what is known of the adapter and of Python here."""
    return plugins.registry.backend("webgpu").describe()


async def conformance(torch: ModuleType, every: int = 1) -> int:
    """Evaluate each expectation (or every ``every``-th), tell the page of each, and return how many were not met."""
    expectations = Expectations(torch)
    chosen = expectations.all[::every]
    operations = len({each.operation for each in chosen})
    say(kind="begin", count=len(chosen), operations=operations, torch=expectations.version, device=device())
    missed = 0
    async for each in expectations.run(chosen):
        missed += bool(each.problem)
        case = each.expectation
        about = {"operation": case.operation, "type": case.kind, "text": case.text}
        say(kind="case", **about, problem=each.problem, waits=each.waits)
    say(kind="end", missed=missed)
    return missed


#: tokens that one call of the tiny GPT writes
TOKENS = 16


def _tiny_gpt(torch: ModuleType) -> Callable[[], Tensor]:
    """Return a function that lets a GPT of two layers, drawn and not trained, write tokens."""
    models = importlib.import_module("webgpu_torch_models")
    sizes = {"vocab_size": 256, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4}
    model = models.GPT2LMHeadModel(models.GPT2Config(**sizes, bos_token_id=0, eos_token_id=None)).eval()
    start = torch.arange(8).unsqueeze(0)
    return lambda: model.generate(start, max_new_tokens=TOKENS, do_sample=False)


def _programs(torch: ModuleType) -> dict[str, tuple[Callable[[], Tensor], float, str]]:
    """Return what is measured: name -> (function, work of one call, unit of the work per second)."""
    functional = torch.nn.functional
    million = torch.randn(1 << 20)
    rows = torch.randn(1024, 1024)
    image, kernel = torch.randn(1, 64, 56, 56), torch.randn(64, 64, 3, 3)
    half, full = torch.randn(512, 512), torch.randn(1024, 1024)
    return {
        "relu, 1,048,576 numbers": (lambda: torch.relu(million), 8 * (1 << 20) / 1e9, "GB/s"),
        "x * sigmoid(x) + 1, 1,048,576": (lambda: million * torch.sigmoid(million) + 1, 8 * (1 << 20) / 1e9, "GB/s"),
        "softmax, 1024 rows of 1024": (lambda: torch.softmax(rows, 1), 8 * (1 << 20) / 1e9, "GB/s"),
        "sum, 1,048,576 numbers": (lambda: million.sum(), 4 * (1 << 20) / 1e9, "GB/s"),
        "matmul, 512 × 512": (lambda: half @ half, 2 * 512**3 / 1e9, "GFLOP/s"),
        "matmul, 1024 × 1024": (lambda: full @ full, 2 * 1024**3 / 1e9, "GFLOP/s"),
        "conv2d 3 × 3, 64 channels of 56 × 56": (
            lambda: functional.conv2d(image, kernel, padding=1),
            2 * 64 * 64 * 9 * 56**2 / 1e9,
            "GFLOP/s",
        ),
        f"tiny GPT, {TOKENS} tokens": (_tiny_gpt(torch), TOKENS, "tokens/s"),
    }


async def benchmark(torch: ModuleType) -> None:
    """Measure each program, its compiling left out, and tell the page of each; not those that would have to wait in the middle."""
    with torch.no_grad():
        programs = _programs(torch)
        say(kind="begin", count=len(programs), device=device())
        for name, (function, work, unit) in programs.items():
            try:
                first = await _seconds(torch, function)
            except CannotWaitError:
                say(kind="waits", name=name)
                continue
            rounds, end = [await _seconds(torch, function)], time.perf_counter() + PATIENCE
            while len(rounds) < ROUNDS and time.perf_counter() < end:
                rounds.append(await _seconds(torch, function))
            usual = statistics.median(rounds)
            say(kind="row", name=name, first=first, seconds=usual, least=min(rounds), rate=work / usual, unit=unit)
    say(kind="end")


async def _seconds(torch: ModuleType, function: Callable[[], Tensor]) -> float:
    """Return the time one call takes until its result is there."""
    # An element that is fetched arrives after all that was asked of the device before.
    await torch.zeros(1).fetch()
    start = time.perf_counter()
    kept = function()
    await kept.flatten()[:1].fetch()
    return time.perf_counter() - start
