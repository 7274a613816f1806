"""The models of webgpu-torch-models at full size with drawn weights, beside the same networks on PyTorch CUDA (TF32 off).

``python benchmarks/models.py [--cases gpt2,bert] [--tiny]``. Each side has a process of its own. PyTorch's runs the very files
of webgpu-torch-models, with ``torch`` in the place of our core and ``torch.nn`` in that of our nn, eager. Both sides compute the
same weights from whole numbers, and the cosine of what comes out is printed; weights of a few bits are compared with PyTorch's
plain ones. Decoders: a prompt of 512 tokens (Qwen3: 1024), and the time of a token after it with how much of it the program
takes. The pictures are twenty steps of guidance at 512 x 512, and the decoder's, without the text's.
"""

from __future__ import annotations

import argparse
import gc
import importlib.abc
import importlib.machinery
import json
import os
import statistics
import subprocess
import sys
import time
import types
import zlib
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
_QWEN3_14B = {
    **_QWEN3,
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "tie_word_embeddings": False,
}
_QWEN3_32B = {**_QWEN3_14B, "intermediate_size": 25600, "num_hidden_layers": 64, "num_attention_heads": 64}
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
    "qwen3-4b-int4": ("decoder_families", "Qwen3ForCausalLM", _QWEN3_4B, "float16", "int4", "decode"),
    "qwen3-14b-f16": ("decoder_families", "Qwen3ForCausalLM", _QWEN3_14B, "float16", None, "decode"),
    "qwen3-14b-int4": ("decoder_families", "Qwen3ForCausalLM", _QWEN3_14B, "float16", "int4", "decode"),
    "qwen3-32b-f16": ("decoder_families", "Qwen3ForCausalLM", _QWEN3_32B, "float16", None, "decode"),
    "qwen3-32b-int4": ("decoder_families", "Qwen3ForCausalLM", _QWEN3_32B, "float16", "int4", "decode"),
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
    "pictures": ("diffusion.unet", "UNet2DConditionModel", _UNET, "float16", None, "pictures"),
}
TINY = {
    "vocab_size": 1024,
    "sample_size": 8,
    "num_hidden_layers": 2,
    "n_layer": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
}
#: the case with whose results on PyTorch's side another one's are compared, where it is not its own
COMPARED = {
    "llama-int8": "llama-f16",
    "llama-int4": "llama-f16",
    "qwen3-4b-int4": "qwen3-4b-f16",
    "qwen3-14b-int4": "qwen3-14b-f16",
    "qwen3-32b-int4": "qwen3-32b-f16",
}
#: seconds that a device works before its times are taken
WARMING = 1.0
#: deviation of drawn weights
DEVIATION = 0.02


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
        if self.ours:
            self.torch.webgpu.synchronize()
        elif self.device != "cpu":
            self.torch.accelerator.synchronize(self.device)

    def seconds(self, call: Callable[[], Any]) -> tuple[float, float]:
        """Return the median seconds of a call after warming up, and those that the program takes."""
        # What nobody holds need not be computed: every result is kept until it was waited for.
        kept = [call() for _ in range(3)]
        self.wait()
        # A device that waited for what had to be compiled is slow again.
        started = time.perf_counter()
        while self.device != "cpu" and time.perf_counter() - started < WARMING:
            kept[0] = call()
            self.wait()
        found = []
        for _ in range(9):
            started = time.perf_counter()
            kept[0] = call()
            issued = time.perf_counter() - started
            self.wait()
            found.append((time.perf_counter() - started, issued))
        return statistics.median(each[0] for each in found), statistics.median(each[1] for each in found)


def drawn(torch: Any, parameter: Any, name: str) -> Any:
    """Return a parameter's weights, evenly spread, from whole numbers that every library mixes alike."""
    mixed = torch.arange(parameter.numel(), dtype=torch.int32, device=parameter.device)
    mixed = mixed + zlib.crc32(name.encode()) % (1 << 30)
    for factor, shift in ((0x2C1B3C6D, 12), (0x297A2D39, 15), (0x1B873593, 13)):
        mixed = (mixed ^ (mixed >> shift)) * factor
    spread = ((mixed >> 8) & 0xFFFF).float() * (1 / 65536) - 0.5
    return (spread * (12**0.5 * DEVIATION)).reshape(parameter.shape)


def made(side: Side, name: str, tiny: bool) -> Any:
    """Return a case's model with drawn weights on the device."""
    module, kind, options, dtype, quantize, _ = CASES[name]
    model = network(side, module, kind, options, dtype, tiny)
    if quantize is not None:
        from webgpu_torch_models.linear import encode_linears

        weights = dict(model.state_dict())
        encode_linears(model, weights, quantize, side.torch.device(side.device), model.active_ties())
    return model


def network(side: Side, module: str, kind: str, options: dict[str, Any], dtype: str, tiny: bool) -> Any:
    """Return a network of a class with drawn weights on the device."""
    model_class = getattr(import_module(f"webgpu_torch_models.{module}"), kind)
    options = {
        **options,
        **{key: value for key, value in TINY.items() if tiny and hasattr(model_class.config_class, key)},
    }
    torch = side.torch
    torch.manual_seed(0)
    usual = torch.get_default_dtype()
    # The largest would not find place twice.
    torch.set_default_dtype(getattr(torch, dtype))
    with torch.device(side.device):
        model = model_class(model_class.config_class.from_dict(options)).eval()
    torch.set_default_dtype(usual)
    for key, parameter in model.named_parameters():
        if parameter.ndim > 1 or key.endswith("bias"):
            parameter.detach().copy_(drawn(torch, parameter, key))
            side.wait()
    return model.to(getattr(torch, dtype))


def call_of(side: Side, model: Any, what: str) -> Callable[[], Any]:
    """Return the call that is measured of a network that is no decoder; it returns a tensor."""
    torch, config = side.torch, model.config
    generator = torch.Generator("cpu").manual_seed(1)

    def given(*shape: int) -> Any:
        return torch.randn(shape, generator=generator, device="cpu").to(side.device, model.dtype)

    ids = torch.randint(5, 900, (1, 128), generator=generator, device="cpu").to(side.device)
    if what == "text":
        return lambda: model(ids).last_hidden_state
    if what == "image":
        pixels = given(1, 3, 224, 224)
        return lambda: model(pixels).last_hidden_state
    if what == "pair":
        pixels, texts = given(1, 3, 224, 224), ids[:, :77]
        return lambda: model(texts, pixels).image_embeds
    if what == "sound":
        heard = given(1, 80, 3000)
        return lambda: model.encode(heard)
    if what == "vae":
        latents = given(1, 4, 64, 64)
        return lambda: model.decode(latents)
    size, xl = config.sample_size, config.addition_embed_type is not None
    batch = 1 if xl else 2
    sample, text = given(batch, 4, size, size), given(batch, 77, config.cross_attention_dim)
    more = {"added_cond_kwargs": {"text_embeds": given(1, 1280), "time_ids": given(1, 6)}} if xl else {}
    if what == "pictures":
        decoder = network(side, "diffusion.autoencoder", "AutoencoderKL", {}, CASES["pictures"][3], False)
        return lambda: pictured(torch, model, decoder, sample[:1], text)
    return lambda: model(sample, 431.0, text, **more)


def pictured(torch: Any, unet: Any, decoder: Any, latents: Any, text: Any, steps: int = 20) -> Any:
    """Return a picture after steps of Euler's method with guidance."""
    for step in range(steps, 0, -1):
        plain, guided = unet(torch.cat([latents, latents]), 999.0 * step / steps, text).chunk(2)
        latents = latents - (plain + 7.5 * (guided - plain)) * (1 / steps)
    return decoder.decode(latents)


def decoded(side: Side, model: Any, prompt: int, tokens: int = 64) -> dict[str, float]:
    """Return the seconds of a prompt and of a token, and those of a token that the program takes."""
    if side.ours:
        from webgpu_torch_models.measuring import measure_decoder

        found = measure_decoder(model, prompt, tokens, repeats=9)
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


def run_side(side: Side, name: str, folder: Path, tiny: bool) -> dict[str, float]:
    """Measure one side of a case; PyTorch's side leaves results in the folder."""
    torch, what = side.torch, CASES[name][-1]
    found: dict[str, float] = {}
    with torch.no_grad():
        model = made(side, name, tiny)
        if what == "decode":
            tokens = (torch.arange(24) * 37 % 911).reshape(1, -1).to(side.device)
            output = model(tokens).logits
            found = decoded(side, model, 1024 if name.startswith("qwen3") else 512)
            found["megabytes"] = sum(each.nbytes for each in (*model.parameters(), *model.buffers())) / 1e6
        else:
            call = call_of(side, model.eval(), what)
            output = call()
            found["seconds"], found["host"] = side.seconds(call)
        results = folder / f"{COMPARED.get(name, name)}.pt"
        if not side.ours:
            torch.save(output.float().cpu(), results)
        elif results.exists():
            one, other = output.float().cpu().flatten().double(), torch.load(results).flatten().double()
            found["cosine"] = (one @ other / (one.norm() * other.norm())).item()
    return found


def run_cases(ours: bool, names: list[str], folder: Path, tiny: bool) -> None:
    """Run one side of several cases, and print each one's name and what was found as a line of JSON."""
    side = Side(ours)
    if side.device != "cpu" and not tiny:
        # A device that did nothing for a while is slow at first.
        one = side.torch.ones(4096, 4096, device=side.device)
        started = time.perf_counter()
        while time.perf_counter() - started < 1.5:
            for _ in range(8):
                one = one @ one * 2.0**-12
            side.wait()
    for name in names:
        print(json.dumps({"begun": name}), flush=True)
        try:
            found: dict[str, Any] = run_side(side, name, folder, tiny)
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps({"name": name, **found}), flush=True)
        gc.collect()


def written(name: str, side: str, found: dict[str, Any]) -> str:
    """Return the line of a case."""
    text = {}
    for key, value in found.items():
        if key != "name":
            unit = {"cosine": "{:.7f}", "megabytes": "{:.0f} MB", "failed": "{}"}.get(key)
            text[key] = unit.format(value) if unit else f"{value * 1e3:.3f} ms"
    return f"{name:13} {side:6} {text}"


def main() -> None:
    """Run the cases and print a line of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--tiny", action="store_true", help="small networks, to try the program out")
    parser.add_argument("--side", choices=("ours", "theirs"), help="for the processes that this program starts")
    parser.add_argument("--folder", default="/tmp/models_benchmark")
    options = parser.parse_args()
    names, folder = options.cases.split(","), Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    if options.side:
        run_cases(options.side == "ours", names, folder, options.tiny)
        return
    for side in ("theirs", "ours"):
        left = [name for name in names if side == "ours" or CASES[name][4] is None]
        while left:
            command = [sys.executable, __file__, "--cases", ",".join(left), "--side", side, "--folder", options.folder]
            command += ["--tiny"] if options.tiny else []
            begun = left[0]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    if not line.startswith("{"):
                        continue
                    found = json.loads(line)
                    begun = found.get("begun", begun)
                    if "name" in found:
                        print(written(found["name"], side, found), flush=True)
                        left.remove(found["name"])
            if process.returncode and left:
                # A process that ended in the middle of a case leaves the others to a new one.
                print(written(begun, side, {"failed": f"the process ended with {process.returncode}"}), flush=True)
                left.remove(begun)


if __name__ == "__main__":
    main()
