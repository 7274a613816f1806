"""Unmodified Hugging Face models with random weights, float32: this library beside PyTorch CUDA (TF32 off) in one run.

``python benchmarks/huggingface.py [--cases gpt2,qwen3,bert,unet] [--tiny]``. Each side of a case runs in a process of its
own: PyTorch's draws the weights and the inputs, saves them in Hugging Face's layout and writes down its results; ours, installed
as ``torch``, loads them. Printed per case: milliseconds, their ratio (ours / PyTorch's), the cosine of the outputs, and
for ours operations, kernels, dispatches and host synchronisations per call and the peak of GPU memory. Where there is no
CUDA, PyTorch runs on the CPU and the ratio says nothing; ``--tiny`` takes two layers, to try the program out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

GPT2 = {"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12}
QWEN3 = {
    "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
    "eos_token_id": None, "bos_token_id": None,
}  # fmt: skip
BERT = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
UNET = {
    "sample_size": 64, "in_channels": 4, "out_channels": 4, "block_out_channels": (320, 640, 1280, 1280), "layers_per_block": 2,
    "down_block_types": ("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
    "cross_attention_dim": 768, "attention_head_dim": 8,
}  # fmt: skip
TINY: dict[str, dict[str, Any]] = {
    "gpt2": {"n_layer": 2, "vocab_size": 1000}, "qwen3": {"num_hidden_layers": 2, "vocab_size": 1000}, "bert": {"num_hidden_layers": 2},
    "unet": {"block_out_channels": (32, 32, 64, 64), "layers_per_block": 1, "sample_size": 16, "norm_num_groups": 8},
}  # fmt: skip
CASES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "gpt2": ("transformers", "GPT2LMHeadModel", "GPT2Config", GPT2),
    "qwen3": ("transformers", "Qwen3ForCausalLM", "Qwen3Config", QWEN3),
    "bert": ("transformers", "BertModel", "BertConfig", BERT),
    "unet": ("diffusers", "UNet2DConditionModel", "", UNET),
}
PROMPT, TOKENS, WARM = 16, 64, 16


class Side:
    """One library on one device: how to wait for it and what it counts."""

    def __init__(self, ours: bool) -> None:
        if ours:
            import webgpu_torch

            webgpu_torch.install_as_torch()
        import torch

        self.torch, self.ours = torch, ours
        if ours:
            self.device = os.environ.get("WEBGPU_TORCH_DEVICE", "webgpu")
        else:
            self.device = "cuda" if torch.cuda.is_available() else "cpu"
            torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cudnn.allow_tf32 = False

    def wait(self) -> None:
        """Wait until the device has done what it was given."""
        if self.ours:
            self.torch.accelerator.synchronize(self.device)
        elif self.device == "cuda":
            self.torch.cuda.synchronize()

    def counts(self) -> dict[str, int]:
        """Return what our engine counted since the start."""
        if not self.ours:
            return {}
        from webgpu_torch_core.record.devices import canonical_device, engine_for

        engine = engine_for(canonical_device(self.device))
        return {**engine.statistics, **getattr(engine.device, "statistics", {})}

    def peak(self) -> float:
        """Return the peak of device memory in GiB."""
        if self.ours:
            return self.torch.accelerator.max_memory_allocated() / 2**30 if self.device == "webgpu" else 0.0
        return self.torch.cuda.max_memory_allocated() / 2**30 if self.device == "cuda" else 0.0


def load(side: Side, case: str, folder: Path, tiny: bool) -> Any:
    """Return the model: new from PyTorch's random numbers on its side, read from its files on ours."""
    library, model_name, config_name, values = CASES[case]
    module = __import__(library)
    kind = getattr(module, model_name)
    if side.ours:
        model = kind.from_pretrained(folder / case)
    else:
        values = {**values, **(TINY[case] if tiny else {})}
        side.torch.manual_seed(0)
        with side.torch.device(side.device):
            model = kind(getattr(module, config_name)(**values)) if config_name else kind(**values)
        model.save_pretrained(folder / case)
    return model.to(side.device).eval()


def inputs(side: Side, case: str, tiny: bool) -> dict[str, Any]:
    """Return a call's arguments, drawn on the CPU: both sides draw the same."""
    torch = side.torch
    generator = torch.Generator().manual_seed(1)
    if case == "unet":
        size = 16 if tiny else 64
        found = {
            "sample": torch.randn((2, 4, size, size), generator=generator),
            "encoder_hidden_states": torch.randn((2, 77, 768), generator=generator),
            "timestep": torch.tensor([500, 500]),
        }
    else:
        shape = (8, 128) if case == "bert" else (1, PROMPT)
        found = {"input_ids": torch.randint(0, 1000, shape, generator=generator)}
    return {key: each.to(side.device) for key, each in found.items()}


def decode(side: Side, model: Any, prompt: dict[str, Any]) -> dict[str, Any]:
    """Time tokens of a greedy loop over the model's own forward with its growing cache, each read as it comes."""
    token, past, rows = prompt["input_ids"], None, []
    for step in range(WARM + TOKENS):
        if step == WARM:
            side.wait()
            before, start = side.counts(), time.perf_counter()
        out = model(input_ids=token, past_key_values=past, use_cache=True)
        past = out.past_key_values
        token = out.logits[:, -1:].argmax(-1)
        if step == 0:
            rows.append(out.logits)
        int(token)
    side.wait()
    return summary(side, rows[0], before, time.perf_counter() - start, TOKENS)


def generate(side: Side, model: Any, prompt: dict[str, Any]) -> dict[str, Any]:
    """Time ``model.generate`` as it comes: eager there, with a static cache and captured steps here."""
    from transformers import GenerationConfig

    options: dict[str, Any] = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}

    def run(count: int) -> Any:
        return model.generate(**prompt, generation_config=GenerationConfig(max_new_tokens=count, **options))

    found = run(WARM + TOKENS)
    run(WARM)
    side.wait()
    times = []
    for count in (WARM, WARM + TOKENS):
        before, start = side.counts(), time.perf_counter()
        run(count)
        side.wait()
        times.append(time.perf_counter() - start)
    return summary(side, found.float(), before, times[1] - times[0], TOKENS, WARM + TOKENS)


def forward(side: Side, model: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Time calls of the model, each waited for."""
    for _ in range(4):
        result = model(**arguments)[0]
        side.wait()
    repeats = 20
    before, start = side.counts(), time.perf_counter()
    for _ in range(repeats):
        result = model(**arguments)[0]
        side.wait()
    return summary(side, result, before, time.perf_counter() - start, repeats)


def summary(
    side: Side, output: Any, before: dict[str, int], seconds: float, calls: int, counted: int = 0
) -> dict[str, Any]:
    """Return a case's figures per call."""
    after = side.counts()
    counts = {key: (after[key] - before[key]) / (counted or calls) for key in after}
    return {"output": output, "seconds": seconds / calls, "counts": counts, "peak": side.peak()}


KINDS = {"decode": decode, "generate": generate, "forward": forward}
RUNS = {
    "gpt2": ("decode", "generate"), "qwen3": ("decode", "generate"), "bert": ("forward",), "unet": ("forward",),
}  # fmt: skip


def child(options: argparse.Namespace) -> None:
    """Run a case on one side and write down what came out."""
    import numpy

    side = Side(options.side == "ours")
    folder = Path(options.folder)
    case = options.cases
    with side.torch.no_grad():
        model = load(side, case, folder, options.tiny)
        for kind in RUNS[case]:
            found = KINDS[kind](side, model, inputs(side, case, options.tiny))
            name = f"{case}-{kind}-{options.side}"
            numpy.save(folder / f"{name}.npy", found.pop("output").float().cpu().numpy())
            (folder / f"{name}.json").write_text(json.dumps(found))
        if options.profile:
            arguments = inputs(side, case, options.tiny)
            profile(lambda: KINDS[RUNS[case][-1]](side, model, arguments))


def profile(call: Any) -> None:
    """Print where the host's time of a case goes."""
    import cProfile
    import pstats

    profiler = cProfile.Profile()
    profiler.runcall(call)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def compare(folder: Path, case: str, kind: str) -> None:
    """Print one case's line."""
    import numpy

    ours, theirs = (json.loads((folder / f"{case}-{kind}-{each}.json").read_text()) for each in ("ours", "torch"))
    a, b = (numpy.load(folder / f"{case}-{kind}-{each}.npy").astype("float64").ravel() for each in ("ours", "torch"))
    cosine = float(a @ b / (numpy.linalg.norm(a) * numpy.linalg.norm(b)))
    counts = ours["counts"]
    line = f"{case:6} {kind:9} ours {ours['seconds'] * 1e3:8.3f} ms | PyTorch {theirs['seconds'] * 1e3:8.3f} ms | "
    line += f"ours / PyTorch {ours['seconds'] / theirs['seconds']:5.2f} | cosine {cosine:.8f} | "
    line += ", ".join(
        f"{counts.get(key, 0):.1f} {name}"
        for key, name in (
            ("recorded", "operations"), ("kernels", "kernels"), ("dispatches", "dispatches"), ("flushes", "plans"),
            ("scheduled", "schedulings"), ("programs", "programs"), ("reads", "host synchronisations"),
        )
    )  # fmt: skip
    print(f"{line} | peak {ours['peak']:.2f} GiB (PyTorch {theirs['peak']:.2f})", flush=True)


def main() -> None:
    """Run both sides and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--tiny", action="store_true", help="two layers each")
    parser.add_argument("--profile", action="store_true", help="print where the host's time goes on our side")
    parser.add_argument("--side", choices=("ours", "torch"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        child(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        for case in options.cases.split(","):
            for side in ("torch", "ours"):
                command = [sys.executable, __file__, "--side", side, "--folder", folder, "--cases", case]
                command += ["--tiny"] * options.tiny + ["--profile"] * (options.profile and side == "ours")
                subprocess.run(command, check=True)
            for kind in RUNS[case]:
                compare(Path(folder), case, kind)


if __name__ == "__main__":
    main()
