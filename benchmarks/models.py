"""The models of webgpu-torch-models at full size with drawn weights, beside the same networks on PyTorch CUDA (TF32 off).

``python benchmarks/models.py [--cases gpt2,bert] [--tiny]``. Each side of a case runs in a process of its own. PyTorch's runs
the very files of webgpu-torch-models, with ``torch`` in the place of our core and ``torch.nn`` in that of our nn, eager; it
draws the weights of networks that are small enough to hand over, and the outputs' cosine is printed, too. Decoders: a
prompt of 512 tokens (Qwen3: 1024), and the time of a token after it with how much of it the program takes.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import json
import os
import statistics
import subprocess
import sys
import time
import types
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

_GPT2: dict[str, Any] = {"eos_token_id": None}
_QWEN3 = {
    "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": True, "rope_parameters": {"rope_theta": 1e6},
}  # fmt: skip
_QWEN3_4B = {
    **_QWEN3,
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
}
_LLAMA = {
    "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": True, "rope_parameters": {"rope_theta": 5e5},
}  # fmt: skip
_CLIP = {
    "vision_config": {
        "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16, "patch_size": 14,
    },
    "text_config": {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12},
    "projection_dim": 768,
}  # fmt: skip
_WHISPER = {
    "d_model": 768, "encoder_layers": 12, "decoder_layers": 12, "encoder_attention_heads": 12, "decoder_attention_heads": 12,
    "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072,
}  # fmt: skip
_UNET = {"cross_attention_dim": 768}
_UNET_XL = {
    "sample_size": 128, "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), "block_out_channels": (320, 640, 1280),
    "cross_attention_dim": 2048, "attention_head_dim": (5, 10, 20), "transformer_layers_per_block": (1, 2, 10),
    "use_linear_projection": True, "addition_embed_type": "text_time", "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
}  # fmt: skip
#: by name: the module, the class, its configuration, the type and the encoding of the weights, and what is measured
CASES: dict[str, tuple[str, str, dict[str, Any], str, str | None, str]] = {
    "gpt2": ("gpt2", "GPT2LMHeadModel", _GPT2, "float32", None, "decode"),
    "qwen3": ("decoder_families", "Qwen3ForCausalLM", _QWEN3, "float32", None, "decode"),
    "qwen3-bf16": ("decoder_families", "Qwen3ForCausalLM", _QWEN3, "bfloat16", None, "decode"),
    "qwen3-4b-f16": ("decoder_families", "Qwen3ForCausalLM", _QWEN3_4B, "float16", None, "decode"),
    "llama-f16": ("decoder_families", "LlamaForCausalLM", _LLAMA, "float16", None, "decode"),
    "llama-int8": ("decoder_families", "LlamaForCausalLM", _LLAMA, "float16", "int8", "decode"),
    "llama-int4": ("decoder_families", "LlamaForCausalLM", _LLAMA, "float16", "int4", "decode"),
    "bert": ("bert", "BertModel", {}, "float32", None, "text"),
    "vit": ("vit", "ViTModel", {}, "float32", None, "image"),
    "clip": ("clip", "CLIPModel", _CLIP, "float32", None, "pair"),
    "whisper": ("whisper", "WhisperForConditionalGeneration", _WHISPER, "float32", None, "sound"),
    "unet": ("diffusion.unet", "UNet2DConditionModel", _UNET, "float32", None, "unet"),
    "unet-xl": ("diffusion.unet", "UNet2DConditionModel", _UNET_XL, "float16", None, "unet"),
    "vae": ("diffusion.autoencoder", "AutoencoderKL", {}, "float32", None, "vae"),
}
TINY = {"num_hidden_layers": 2, "n_layer": 2, "encoder_layers": 2, "decoder_layers": 2}
#: networks of at most so many numbers are handed over, so that results can be compared
MOST_NUMBERS = 250_000_000


class _Torch(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives PyTorch in the place of our core and nn, and pretends what of them a network does not compute with."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        is_ours = name.partition(".")[0] in ("webgpu_torch_core", "webgpu_torch_nn")
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_ours else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        import torch

        known: dict[str, Any] = {"webgpu_torch_core": torch, "webgpu_torch_nn": torch.nn}
        made = types.ModuleType(spec.name)
        made.__getattr__ = lambda name: getattr(known.get(spec.name, MagicMock()), name)  # type: ignore[method-assign]
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing is to be run."""


class Side:
    """One library: where it computes, and how to wait for it."""

    def __init__(self, ours: bool) -> None:
        if not ours:
            sys.meta_path.insert(0, _Torch())
        self.torch: Any = import_module("webgpu_torch" if ours else "torch")
        self.ours = ours
        if not ours:
            self.torch.backends.cuda.matmul.allow_tf32 = False
            self.torch.backends.cudnn.allow_tf32 = False
        theirs = "cuda" if not ours and self.torch.cuda.is_available() else "cpu"
        self.device = os.environ.get("WEBGPU_TORCH_DEVICE", "webgpu") if ours else theirs

    def wait(self) -> None:
        """Wait until the device has done what it was given."""
        if self.device != "cpu":
            self.torch.accelerator.synchronize(self.device)

    def seconds(self, call: Callable[[], Any]) -> tuple[float, float]:
        """Return the median seconds of a call after warming up, and those that the program takes."""
        for _ in range(3):
            call()
        self.wait()
        found = []
        for _ in range(5):
            started = time.perf_counter()
            call()
            issued = time.perf_counter() - started
            self.wait()
            found.append((time.perf_counter() - started, issued))
        return statistics.median(each[0] for each in found), statistics.median(each[1] for each in found)


def made(side: Side, name: str, tiny: bool) -> Any:
    """Return a case's model with drawn weights on the device."""
    module, kind, options, dtype, quantize, _ = CASES[name]
    model_class = getattr(import_module(f"webgpu_torch_models.{module}"), kind)
    options = {
        **options,
        **{key: value for key, value in TINY.items() if tiny and hasattr(model_class.config_class, key)},
    }
    torch = side.torch
    torch.manual_seed(0)
    with torch.device(side.device):
        model = model_class(model_class.config_class.from_dict(options)).eval()
    model = model.to(getattr(torch, dtype))
    if quantize is not None:
        from webgpu_torch_models.linear import encode_linears

        weights = dict(model.state_dict())
        encode_linears(model, weights, quantize, torch.device(side.device))
    return model


def call_of(side: Side, model: Any, what: str) -> Callable[[], Any]:
    """Return the call that is measured of a network that is no decoder; it returns a tensor."""
    torch, config = side.torch, model.config
    generator = torch.Generator().manual_seed(1)

    def drawn(*shape: int) -> Any:
        return torch.randn(shape, generator=generator).to(side.device, model.dtype)

    ids = torch.randint(5, 900, (1, 128), generator=generator).to(side.device)
    if what == "text":
        return lambda: model(ids).last_hidden_state
    if what == "image":
        pixels = drawn(1, 3, 224, 224)
        return lambda: model(pixels).last_hidden_state
    if what == "pair":
        pixels, texts = drawn(1, 3, 224, 224), ids[:, :77]
        return lambda: model(texts, pixels).image_embeds
    if what == "sound":
        heard = drawn(1, 80, 3000)
        return lambda: model.encode(heard)
    if what == "vae":
        latents = drawn(1, 4, 64, 64)
        return lambda: model.decode(latents)
    size, xl = config.sample_size, config.addition_embed_type is not None
    batch = 1 if xl else 2
    sample, text = drawn(batch, 4, size, size), drawn(batch, 77, config.cross_attention_dim)
    more = {"added_cond_kwargs": {"text_embeds": drawn(1, 1280), "time_ids": drawn(1, 6)}} if xl else {}
    return lambda: model(sample, 431.0, text, **more)


def decoded(side: Side, model: Any, prompt: int, tokens: int = 64) -> dict[str, float]:
    """Return the seconds of a prompt and of a token, and those of a token that the program takes."""
    if side.ours:
        from webgpu_torch_models.measuring import measure_decoder

        found = measure_decoder(model, prompt, tokens)
        return {"prefill": found.prefill_seconds, "token": found.token_seconds, "host": found.host_seconds}
    torch = side.torch
    ids = torch.zeros((1, prompt), dtype=torch.int64, device=side.device)
    taken = []
    for _ in range(3):
        cache = model.new_cache(1, prompt + tokens + 8)
        side.wait()
        started = time.perf_counter()
        token = model(ids, cache=cache, logits_to_keep=1).logits.argmax(-1)
        side.wait()
        taken.append(time.perf_counter() - started)
    for step in range(4 + tokens):
        if step == 4:
            side.wait()
            started = time.perf_counter()
        token = model(token, cache=cache, logits_to_keep=1).logits.argmax(-1)
    issued = time.perf_counter() - started
    side.wait()
    return {"prefill": min(taken), "token": (time.perf_counter() - started) / tokens, "host": issued / tokens}


def run_side(ours: bool, name: str, folder: Path, tiny: bool) -> dict[str, float]:
    """Measure one side of a case; PyTorch's side leaves weights and results in the folder."""
    side = Side(ours)
    torch, what = side.torch, CASES[name][-1]
    found: dict[str, float] = {}
    with torch.no_grad():
        model = made(side, name, tiny)
        weights, results = folder / "weights.pt", folder / "results.pt"
        if not ours and sum(each.numel() for each in model.parameters()) <= MOST_NUMBERS:
            torch.save({key: value.cpu() for key, value in model.state_dict().items()}, weights)
        if ours and weights.exists():
            model.load_state_dict(torch.load(weights, map_location=side.device))
        if what == "decode":
            tokens = (torch.arange(24) * 37 % 911).reshape(1, -1).to(side.device)
            output = model(tokens).logits
            found = decoded(side, model, 1024 if name.startswith("qwen3") else 512)
        else:
            call = call_of(side, model, what)
            output = call()
            found["seconds"], found["host"] = side.seconds(call)
        if not ours and weights.exists():
            torch.save(output.float().cpu(), results)
        elif ours and results.exists():
            one, other = output.float().cpu().flatten().double(), torch.load(results).flatten().double()
            found["cosine"] = (one @ other / (one.norm() * other.norm())).item()
    return found


def main() -> None:
    """Run the cases and print a line of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--tiny", action="store_true", help="small networks, to try the program out")
    parser.add_argument("--side", choices=("ours", "theirs"), help="for the processes that this program starts")
    parser.add_argument("--folder", default="/tmp/models_benchmark")
    options = parser.parse_args()
    for name in options.cases.split(","):
        folder = Path(options.folder) / name
        folder.mkdir(parents=True, exist_ok=True)
        if options.side:
            print(json.dumps(run_side(options.side == "ours", name, folder, options.tiny)), flush=True)
            continue
        for side in ("theirs", "ours"):
            if side == "theirs" and CASES[name][4] is not None:
                continue
            command = [sys.executable, __file__, "--cases", name, "--side", side, "--folder", options.folder]
            ended = subprocess.run([*command, *(["--tiny"] if options.tiny else [])], capture_output=True, text=True)
            lines = ended.stdout.strip().splitlines()
            found = json.loads(lines[-1]) if ended.returncode == 0 and lines else {"failed": ended.stderr[-300:]}
            text = {key: f"{value * 1e3:.3f} ms" if key != "cosine" else f"{value:.7f}" for key, value in found.items()
                    if key != "failed"}  # fmt: skip
            print(f"{name:13} {side:6}", found.get("failed", text), flush=True)


if __name__ == "__main__":
    main()
