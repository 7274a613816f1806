"""Train a small GPT-2 on the text of this repository for about a minute, save it, load it, and let it write.

    python examples/demo.py                          # train, save under build/demo-model, load, generate
    MODEL=openai-community/gpt2 python examples/demo.py    # only generate, with a local folder or a hub id

Environment: WEBGPU_TORCH_DEVICE picks the device, DEMO_SECONDS the training time, PROMPT the text to continue.
"""

from __future__ import annotations

import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import webgpu_torch as torch
from tokenizers import Tokenizer as TokenizerBackend
from tokenizers import decoders, models, pre_tokenizers, trainers
from tqdm import tqdm
from train_gpt import Trainer, learning_rate
from webgpu_torch_models import AutoModelForCausalLM, AutoTokenizer, Tokenizer

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
VOCABULARY = 1024
LEAST_STEPS = 800
ENOUGH_STEPS = 600
READ_EVERY = 8
SOFTWARE_ADAPTERS = ("llvmpipe", "lavapipe", "swiftshader", "basic render")
# From large to small; the first that fits enough steps into the time is trained.
SIZES = (
    {"n_layer": 4, "n_embd": 192, "n_head": 6, "context": 128, "batch": 16},
    {"n_layer": 4, "n_embd": 128, "n_head": 4, "context": 96, "batch": 8},
    {"n_layer": 4, "n_embd": 128, "n_head": 4, "context": 64, "batch": 12},
)


def choose_device() -> Any:
    """Return the device asked for, else the GPU if it is a real one, else the CPU."""
    if asked := os.environ.get("WEBGPU_TORCH_DEVICE"):
        return torch.device(asked)
    if torch.webgpu.is_available():
        name = torch.webgpu.get_device_name().lower()
        if not any(software in name for software in SOFTWARE_ADAPTERS):
            return torch.device("webgpu")
    return torch.device("cpu")


def print_device(device: Any) -> None:
    """Print which backend and adapter compute."""
    adapter = torch.webgpu.get_device_name(device) if device.type == "webgpu" else "the host's processor"
    print(f"backend {device.type}, adapter {adapter}")


def read_text() -> str:
    """Return the prose of this repository."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    paths += sorted((ROOT / "examples" / "data").glob("*.md"))
    # The table of operations is no prose.
    paths = [path for path in paths if path.is_file() and path.name != "compatibility.md"]
    return "\n\n".join(path.read_text(encoding="utf-8") for path in paths)


def train_tokenizer(text: str) -> Tokenizer:
    """Learn a byte-level BPE vocabulary from the text."""
    backend = TokenizerBackend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator([text], trainer)
    return Tokenizer(backend, {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"})


def pick_trainer(vocabulary: int, ids: list[int], device: Any, seconds: float) -> Trainer:
    """Return the largest model that this device trains for enough steps, judged by its third step."""
    for size in SIZES:
        trainer = Trainer(size, vocabulary, ids, device)
        took = 0.0
        for _ in range(3):
            started = time.perf_counter()
            trainer.step(0.0).item()
            took = time.perf_counter() - started
        if seconds / took >= ENOUGH_STEPS:
            break
    parameters = trainer.model.num_parameters()
    print(
        f"model: {size['n_layer']} layers of width {size['n_embd']}, context {size['context']}, {parameters:,} "
        f"parameters; batch {size['batch']}; {took * 1000:.0f} ms a step"
    )
    return trainer


def train(trainer: Trainer, seconds: float) -> list[float]:
    """Train until the time is over, and at least :data:`LEAST_STEPS`; return every step's loss."""
    losses: list[float] = []
    pending: list[Any] = []
    started = time.perf_counter()
    share = 0.0
    with tqdm(total=round(seconds), unit="s", bar_format="{l_bar}{bar}| {n:.0f}/{total} s {postfix}") as bar:
        while share < 1:
            pending.append(trainer.step(learning_rate(len(losses) + len(pending) + 1, share)))
            if len(pending) == READ_EVERY or not losses:
                # One read for several steps: the host runs ahead of the device in between.
                losses += torch.stack(pending).tolist()
                pending = []
                elapsed = time.perf_counter() - started
                # A device that is too slow takes longer than asked, to see enough steps.
                share = min(1.0, elapsed / seconds, len(losses) / LEAST_STEPS)
                bar.set_postfix_str(f"step {len(losses)}, loss {losses[-1]:.3f}", refresh=False)
                bar.update(min(elapsed, bar.total) - bar.n)
    return losses


def sparkline(values: list[float], width: int = 60) -> str:
    """Return the values as a line of small bars, averaged down to ``width`` of them."""
    size = max(1, math.ceil(len(values) / width))
    means = [sum(part) / len(part) for part in (values[i : i + size] for i in range(0, len(values), size))]
    low, high = min(means), max(means)
    return "".join("▁▂▃▄▅▆▇█"[round(7 * (mean - low) / (high - low or 1))] for mean in means)


def draw(losses: list[float], path: Path) -> None:
    """Draw the loss curve, if matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        print("no loss curve: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.plot(range(1, len(losses) + 1), losses)
    axes.set(xlabel="step", ylabel="cross-entropy", title="A small GPT-2 learns the text of this repository")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    pyplot.close(figure)
    print(f"loss curve: {path}")


def write(folder: str | Path, device: Any, prompt: str, tokens: int) -> None:
    """Load a model and print how it continues the prompt, as the tokens come."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, device=device)
    ids = tokenizer.encode(prompt)
    tokens = min(tokens, model.config.n_positions - len(ids))
    text, times = tokenizer.stream(), [time.perf_counter()]
    print(f"\n{prompt}", end="", flush=True)
    input_ids = torch.tensor([ids], dtype=torch.int64).to(device)
    for [token] in model.stream(input_ids, max_new_tokens=tokens, do_sample=True, temperature=0.8, top_k=40):
        times.append(time.perf_counter())
        print(text.put(token), end="", flush=True)
    print(text.end())
    # The first token includes the prompt and the making of kernels.
    made, took = len(times) - 2, times[-1] - times[1]
    if made > 0:
        print(f"\n{made / took:.1f} tokens/s after the first token ({times[1] - times[0]:.2f} s)")


def main() -> int:
    """Run the demo; return the exit status."""
    device = choose_device()
    print_device(device)
    if model := os.environ.get("MODEL"):
        write(model, device, os.environ.get("PROMPT", "The meaning of life is"), 100)
        return 0
    text = read_text()
    tokenizer = train_tokenizer(text)
    ids = tokenizer.encode(text)
    print(f"text: {len(text):,} characters, {len(ids):,} tokens of a vocabulary of {len(tokenizer)}")
    seconds = float(os.environ.get("DEMO_SECONDS", "60"))
    trainer = pick_trainer(len(tokenizer), ids, device, seconds)
    losses = train(trainer, seconds)
    start, end = losses[0], sum(losses[-10:]) / len(losses[-10:])
    print(f"loss {start:.3f} → {end:.3f} in {len(losses)} steps  {sparkline(losses)}")
    folder = BUILD / "demo-model"
    trainer.model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    draw(losses, BUILD / "loss.png")
    print(f"saved in Hugging Face's layout: {folder}")
    write(folder, device, os.environ.get("PROMPT", "A tensor is"), 100)
    if not end <= start / 2:
        print(f"error: the loss should at least have halved, from {start:.3f} to {start / 2:.3f}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
