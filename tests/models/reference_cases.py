"""Tiny models whose outputs transformers and diffusers recorded: configurations, weights and inputs without either library.

``record_references.py`` writes ``references/*.json`` and ``*.safetensors`` where the libraries are installed; the tests
need neither of them.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "references"
_DECODER = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip


def _rope(kind: str, **options: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 1000.0, **options}}


#: by name: the model's class in transformers and its configuration's keys
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama_tied": ("Llama", {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}),
    "llama_linear": ("Llama", _rope("linear", factor=4.0)),
    "llama_dynamic": ("Llama", {**_rope("dynamic", factor=4.0), "max_position_embeddings": 16}),
    "llama_3": (
        "Llama",
        _rope("llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16),
    ),
    "llama_yarn": ("Llama", _rope("yarn", factor=4.0, original_max_position_embeddings=16)),
    "mistral": ("Mistral", {"sliding_window": 5}),
    "qwen2": ("Qwen2", {}),
    "qwen2_window": ("Qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "gemma": ("Gemma", {"head_dim": 16}),
    "gemma2": ("Gemma2", {"head_dim": 16, "sliding_window": 4, "query_pre_attn_scalar": 20}),
    "gemma3": (
        "Gemma3",
        {"head_dim": 16, "sliding_window": 4, "query_pre_attn_scalar": 20, "sliding_window_pattern": 2},
    ),
    "phi3": ("Phi3", {}),
    "phi3_long": (
        "Phi3",
        {
            **_rope("longrope", short_factor=[1.0, 1.1, 1.2], long_factor=[2.0, 3.0, 4.0], partial_rotary_factor=0.75),
            "original_max_position_embeddings": 16,
        },
    ),
    "olmo2": ("Olmo2", {}),
    "mixtral": ("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen3_moe": (
        "Qwen3Moe",
        {
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 24,
            "head_dim": 16,
            "norm_topk_prob": True,
            "mlp_only_layers": [1],
        },
    ),
}


_ENCODER = {
    "vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 24,
}  # fmt: skip
_LABELS = {"id2label": {0: "no", 1: "yes", 2: "perhaps"}}

#: by name: the model's class in transformers and all keys of its configuration
ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertModel", _ENCODER),
    "bert_masked": ("BertForMaskedLM", {**_ENCODER, "hidden_act": "gelu_new"}),
    "bert_classifier": ("BertForSequenceClassification", {**_ENCODER, **_LABELS}),
    "roberta": ("RobertaModel", {**_ENCODER, "pad_token_id": 1}),
    "roberta_masked": ("RobertaForMaskedLM", {**_ENCODER, "pad_token_id": 1}),
    "roberta_classifier": ("RobertaForSequenceClassification", {**_ENCODER, **_LABELS, "pad_token_id": 1}),
}
for _name, _class in (
    ("distilbert", "Model"),
    ("distilbert_masked", "ForMaskedLM"),
    ("distilbert_classifier", "ForSequenceClassification"),
):
    _sizes = {"vocab_size": 97, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 24}
    ENCODERS[_name] = (f"DistilBert{_class}", {**_sizes, **_LABELS})


def decoder_options(name: str) -> dict[str, Any]:
    """Return all keys of a decoder's configuration."""
    return {**_DECODER, **DECODERS[name][1]}


def weights(library: Any, shapes: dict[str, list[int]], scale: float = 1.0) -> dict[str, Any]:
    """Return weights drawn by PyTorch's random stream, the same with either library.

    Matrices have deviation ``scale / sqrt(columns)``, vectors are near one for norms and near zero for biases.
    """
    result = {}
    for name, shape in shapes.items():
        generator = library.Generator().manual_seed(zlib.crc32(name.encode()))
        drawn = library.randn(shape, generator=generator)
        if len(shape) > 1:
            fan = max(1, drawn.numel() // shape[0])
            result[name] = drawn * (scale * fan**-0.5)
        else:
            result[name] = drawn * 0.1 + (1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0)
    return result


def tokens(library: Any, batch: int = 2, length: int = 11, vocabulary: int = 97) -> tuple[Any, Any]:
    """Return token numbers [batch, length] and a mask whose first row starts with three tokens of padding."""
    generator = library.Generator().manual_seed(1)
    ids = library.randint(1, vocabulary, (batch, length), generator=generator)
    mask = library.ones_like(ids)
    mask[0, :3] = 0
    return ids, mask


def description(name: str) -> dict[str, Any]:
    """Return what was recorded of a case: its config.json, and its weights' names and shapes."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
