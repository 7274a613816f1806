"""Decoders from GGUF files: what llama.cpp calls sizes and weights, in the names of Hugging Face's checkpoints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.files.host_tensors import brief

from webgpu_torch_models.decoder import DecoderConfig, DecoderForCausalLM
from webgpu_torch_models.gguf import GGUFError, Stored, Value, decode, read_gguf
from webgpu_torch_models.linear import check_quantization
from webgpu_torch_models.registry import CAUSAL_LM, architecture

T = TypeVar("T", int, float)

ARCHITECTURES = ("llama", "qwen2", "qwen3")
_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_INSIDE = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
#: a table that the frequencies of positions follow from
_IGNORED = ("rope_freqs.weight",)


def _name(name: str) -> str | None:
    """Return a tensor's name in Hugging Face's checkpoints, or None where there is none."""
    match = re.fullmatch(r"(?:blk\.(\d{1,6})\.)?(\w+)\.(weight|bias)", name)
    if match is None:
        return None
    layer, inner, kind = match.groups()
    found = _OUTSIDE.get(inner) if layer is None else _INSIDE.get(inner)
    if found is None:
        return None
    return f"{found}.{kind}" if layer is None else f"model.layers.{int(layer)}.{found}.{kind}"


class _Metadata:
    """Sizes by their names in an architecture's metadata."""

    def __init__(self, values: dict[str, Value], path: Path) -> None:
        self.values, self.path = values, path
        found = values.get("general.architecture")
        if found not in ARCHITECTURES:
            known = ", ".join(ARCHITECTURES)
            raise GGUFError(f"{path}: general.architecture is {brief(found)}; supported are {known}")
        self.architecture = str(found)

    def number(self, name: str, kind: type[T], default: T | None = None) -> T:
        key = f"{self.architecture}.{name}"
        value = self.values.get(key, default)
        if not isinstance(value, int if kind is int else (int, float)) or isinstance(value, bool) or not value > 0:
            raise GGUFError(f"{self.path}: {key} is {brief(value)}, expected a positive number")
        return kind(value)

    def token(self, name: str) -> int | None:
        value = self.values.get(f"tokenizer.ggml.{name}_token_id")
        return value if isinstance(value, int) else None


def _config(metadata: _Metadata, tensors: dict[str, Stored]) -> DecoderConfig:
    embedding = tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise GGUFError(f"{metadata.path} has no token_embd.weight of two dimensions")
    scaling = metadata.values.get(f"{metadata.architecture}.rope.scaling.type", "none")
    if scaling != "none" or "rope_freqs.weight" in tensors:
        raise GGUFError(
            f"{metadata.path}: positions are stretched ({brief(scaling)}), which is not supported from GGUF"
        )
    heads, width = metadata.number("attention.head_count", int), metadata.number("embedding_length", int)
    theta = metadata.number("rope.freq_base", float, 10000.0)
    sizes: dict[str, object] = {
        "vocab_size": embedding.shape[0],
        "hidden_size": width,
        "intermediate_size": metadata.number("feed_forward_length", int),
        "num_hidden_layers": metadata.number("block_count", int),
        "num_attention_heads": heads,
        "num_key_value_heads": metadata.number("attention.head_count_kv", int, heads),
        "head_dim": metadata.number("attention.key_length", int, max(width // heads, 1)),
        "max_position_embeddings": metadata.number("context_length", int),
        "rms_norm_eps": metadata.number("attention.layer_norm_rms_epsilon", float),
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "tie_word_embeddings": "output.weight" not in tensors,
        "attention_bias": "blk.0.attn_output.bias" in tensors,
        "bos_token_id": metadata.token("bos"),
        "eos_token_id": metadata.token("eos"),
        "pad_token_id": metadata.token("padding"),
    }
    found = architecture(metadata.architecture, metadata.path).config_class().from_dict(sizes)
    assert isinstance(found, DecoderConfig)
    return found


def _halves(weight: Tensor, heads: int) -> Tensor:
    """Undo llama.cpp's order of a head's rows, which has the two that are rotated together side by side."""
    pairs = weight.reshape(heads, -1, 2, *weight.shape[1:])
    return pairs.transpose(1, 2).reshape(weight.shape)


def load_gguf(
    path: str | Path,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    quantize: str | None = None,
) -> DecoderForCausalLM:
    """Load a decoder from a GGUF file, in evaluation mode.

    Args:
        path: of the file; numbers may be stored as F32, F16, BF16, Q8_0, Q4_0, Q4_K or Q6_K.
        dtype: of the weights; float32 by default.
        device: where they go; by default the default device.
        quantize: as :meth:`PreTrainedModel.from_pretrained`'s: encode linear maps anew, as they come.

    Raises:
        GGUFError: the file is damaged, or holds what is not supported.
        ValueError: its weights are not those of the model that its metadata describe.
    """
    path = Path(path)
    if quantize is not None:
        check_quantization(quantize)
    values, tensors = read_gguf(path)
    metadata = _Metadata(values, path)
    config = _config(metadata, tensors)
    target = torch.get_default_device() if device is None else torch.device(device)
    model = architecture(config.model_type, path).model_class(CAUSAL_LM)._described(config, path, len(tensors))
    weights: dict[str, Tensor] = {}
    for name, stored in tensors.items():
        if name in _IGNORED:
            continue
        key = _name(name) or name
        weight = decode(stored, target if quantize is None else "cpu")
        if metadata.architecture == "llama" and re.search(r"\.attn_[qk]\.", name):
            heads = config.num_attention_heads if "attn_q" in name else config.num_key_value_heads or 0
            if weight.shape[0] % (2 * heads):
                raise GGUFError(
                    f"{path}: {name} has {weight.shape[0]} rows, no multiple of two for each of {heads} heads"
                )
            weight = _halves(weight, heads)
        weights[key] = weight
    model._assign(weights, path, dtype, quantize, target)
    return model.eval()  # type: ignore[return-value]
