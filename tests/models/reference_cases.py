"""Tiny models whose outputs transformers and diffusers recorded: configurations, weights and inputs without either library.

``record_references.py`` writes ``references/*.json`` and ``*.safetensors`` where the libraries are installed; the tests
need neither of them.
"""

from __future__ import annotations

import json
import math
import random
import zlib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "references"
_DECODER = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
#: what GPT-2 calls its sizes
_GPT2 = {
    "vocab_size": 97, "n_embd": 32, "n_inner": 48, "n_layer": 3, "n_head": 4, "n_positions": 64, "pad_token_id": 0, "bos_token_id": None,
    "eos_token_id": None,
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
    "gpt2": ("GPT2", {}),
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
    "gpt_neox": ("GPTNeoX", {}),
    "gpt_neox_sequential": ("GPTNeoX", {"use_parallel_residual": False, "attention_bias": False, "rotary_pct": 0.5}),
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
_TAGS = {"id2label": {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC"}}
for _family, _own in (("bert", {}), ("roberta", {"pad_token_id": 1})):
    _architecture = _family.capitalize()
    ENCODERS[f"{_family}_tokens"] = (f"{_architecture}ForTokenClassification", {**_ENCODER, **_TAGS, **_own})
    ENCODERS[f"{_family}_answers"] = (f"{_architecture}ForQuestionAnswering", {**_ENCODER, **_own})
for _name, _class in (
    ("distilbert", "Model"),
    ("distilbert_tokens", "ForTokenClassification"),
    ("distilbert_answers", "ForQuestionAnswering"),
    ("distilbert_masked", "ForMaskedLM"),
    ("distilbert_classifier", "ForSequenceClassification"),
):
    _sizes = {"vocab_size": 97, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 24}
    ENCODERS[_name] = (f"DistilBert{_class}", {**_sizes, **({} if "answers" in _name else _LABELS)})

T5 = {
    "vocab_size": 97, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12, "decoder_start_token_id": 0,
    "pad_token_id": 0, "eos_token_id": None,
}  # fmt: skip
#: by name: the model's class in transformers and all keys of its configuration
SEQ2SEQ: dict[str, tuple[str, dict[str, Any]]] = {
    "t5": ("T5ForConditionalGeneration", T5),
    "t5_gated": (
        "T5ForConditionalGeneration",
        {**T5, "feed_forward_proj": "gated-gelu", "num_decoder_layers": 1, "tie_word_embeddings": False},
    ),
}

WHISPER = {
    "vocab_size": 97, "num_mel_bins": 8, "d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 48,
    "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48, "max_source_positions": 20,
    "max_target_positions": 24, "decoder_start_token_id": 3, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "suppress_tokens": None, "begin_suppress_tokens": None,
}  # fmt: skip


# Token 0 would be taken for no padding by transformers' beam search.
_ENDS = {"eos_token_id": [7, 31, 40, 55, 62, 78, 90], "pad_token_id": 5}
_WORDS = [[4], [7], [72, 71], [10, 88, 1], [81, 15], [6, 30, 24, 6]]
_DRAWN = {"do_sample": True, "pad_token_id": 0}
#: by name: the case of the model, and how it goes on from :func:`tokens`, padded; draws start at seed 5
GENERATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "beams": ("llama", {"num_beams": 3, "pad_token_id": 0}),
    "beams_with_ends": ("llama", {"num_beams": 3, **_ENDS}),
    "beams_early": ("llama", {"num_beams": 4, "early_stopping": True, "length_penalty": 0.3, **_ENDS}),
    "beams_never": ("gemma3", {"num_beams": 2, "early_stopping": "never", "length_penalty": 1.7, **_ENDS}),
    "beams_penalty": ("qwen3", {"num_beams": 3, "repetition_penalty": 1.6, "length_penalty": -0.5, **_ENDS}),
    "beams_drawn": ("llama", {"num_beams": 3, **_DRAWN, "top_k": 20, "temperature": 0.9, "min_p": 0.02}),
    "beams_seq2seq": ("t5", {"num_beams": 3, **_ENDS}),
    "ends": ("llama", _ENDS),
    "penalty": ("llama", {"repetition_penalty": 1.4, "pad_token_id": 0}),
    "drawn": ("llama", {**_DRAWN, "temperature": 1.2, "top_k": 30, "top_p": 0.95}),
    "drawn_min_p": ("qwen2", {**_DRAWN, "min_p": 0.05, "top_k": 0, "repetition_penalty": 1.3}),
    "repeated": ("llama", {"no_repeat_ngram_size": 2, "repetition_penalty": 0.6, "pad_token_id": 0}),
    "repeated_once": ("qwen3", {"no_repeat_ngram_size": 1, **_ENDS}),
    "beams_repeated": (
        "llama",
        {"num_beams": 3, "no_repeat_ngram_size": 3, "min_new_tokens": 9, "repetition_penalty": 0.7, **_ENDS},
    ),
    "least": ("llama", {"min_length": 19, **_ENDS}),
    "least_new": ("llama", {"min_new_tokens": 14, "min_length": 29, **_ENDS}),
    "words": ("llama", {"bad_words_ids": _WORDS, **_ENDS}),
    "beams_words": ("llama", {"num_beams": 2, "bad_words_ids": _WORDS, "length_penalty": 0.2, **_ENDS}),
    "forced": (
        "t5",
        {"forced_bos_token_id": 11, "forced_eos_token_id": [7, 31], "begin_suppress_tokens": [*range(48)], **_ENDS},
    ),
    "beams_forced": ("t5", {"num_beams": 3, "forced_bos_token_id": 60, "forced_eos_token_id": 7, "pad_token_id": 5}),
    "drawn_ruled": (
        "llama",
        {
            **_DRAWN,
            "no_repeat_ngram_size": 2,
            "bad_words_ids": _WORDS,
            "forced_eos_token_id": 31,
            "repetition_penalty": 0.8,
            "suppress_tokens": [*range(20, 31)],
            "begin_suppress_tokens": [*range(60, 97)],
        },
    ),
    "drawn_all": ("llama", {**_DRAWN, "min_p": 0.1, "top_k": 12, "top_p": 0.8, "temperature": 1.5, **_ENDS}),
}


GPT2 = {
    "vocab_size": 97, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "eos_token_id": None, "bos_token_id": None,
}  # fmt: skip
#: by name: the model, and the adapter's options in peft
ADAPTERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lora": ("llama", {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"]}),
    "lora_stable": (
        "qwen2",
        {
            "r": 6, "lora_alpha": 3, "use_rslora": True, "target_modules": "all-linear",
            "rank_pattern": {"k_proj": 2}, "alpha_pattern": {"layers.1.mlp.up_proj": 9},
        },
    ),
    "lora_transposed": ("gpt2", {"r": 3, "target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
}  # fmt: skip

#: by kind of numbers in GGUF files: a block's bytes, and where in it the 16-bit floats are
GGUF_BLOCKS = {
    "F16": (2, (0,)), "BF16": (2, (0,)), "Q4_0": (18, (0,)), "Q8_0": (34, (0,)), "Q4_K": (144, (0, 2)), "Q6_K": (210, (208,)),
}  # fmt: skip


#: by name: all keys of a Whisper's configuration; one of them hears a second at once
WHISPERS = {"whisper": WHISPER, "whisper_heard": {**WHISPER, "max_source_positions": 50}}


def features(library: Any, frames: int = 40) -> Any:
    """Return what Whisper hears."""
    return library.randn((2, 8, frames), generator=library.Generator().manual_seed(3))


#: Whisper's tokens for times begin after the one for none; a text ends with 2
TIMED = {"no_timestamps_token_id": 60, "max_initial_timestamp_index": 5, "eos_token_id": 2}


def timed_texts(library: Any, count: int = 60) -> Any:
    """Return what Whisper may have written after a token of prompt: times in order among texts, int64 [count, 14]."""
    draws = random.Random(9)
    rows = []
    for _ in range(count):
        row, time = [3], 61
        while len(row) < 14:
            if draws.random() < 0.45:
                time = min(96, time + draws.randrange(6))
                row.append(time)
            else:
                row.append(draws.randrange(3, 60))
        rows.append(row)
    return library.tensor(rows)


TOWER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
_TEXT = {
    **TOWER,
    "vocab_size": 97,
    "max_position_embeddings": 16,
    "projection_dim": 24,
    "eos_token_id": 96,
    "bos_token_id": 1,
}
_IMAGE = {**TOWER, "image_size": 24, "patch_size": 8, "projection_dim": 24}
_VIT = {**TOWER, **_LABELS, "image_size": 24, "patch_size": 8}
#: by name: the model's class in transformers, all keys of its configuration, and what it is given
VISION: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "clip": ("CLIPModel", {"text_config": _TEXT, "vision_config": _IMAGE, "projection_dim": 24}, ("texts", "images")),
    "clip_text": ("CLIPTextModel", {**_TEXT, "eos_token_id": 2}, ("texts",)),
    "clip_text_projected": ("CLIPTextModelWithProjection", {**_TEXT, "hidden_act": "gelu"}, ("texts",)),
    "clip_vision": ("CLIPVisionModel", _IMAGE, ("images",)),
    "siglip": ("SiglipModel", {"text_config": _TEXT, "vision_config": _IMAGE}, ("texts", "images")),
    "vit": ("ViTModel", _VIT, ("images",)),
    "vit_classifier": ("ViTForImageClassification", _VIT, ("images",)),
    "deit": ("DeiTForImageClassificationWithTeacher", _VIT, ("images",)),
    "dinov2": ("Dinov2Model", _VIT, ("images",)),
    "dinov2_classifier": ("Dinov2ForImageClassification", _VIT, ("images",)),
    "dinov2_larger": ("Dinov2Model", _VIT, ("large_images",)),
}


def inputs(library: Any, kinds: tuple[str, ...]) -> dict[str, Any]:
    """Return what a model for images, texts or both is given."""
    result = {}
    if "texts" in kinds:
        ids, _ = tokens(library, 3, 16, 96)
        for row, end in enumerate((15, 7, 11)):
            ids[row, end] = 96
        result["input_ids"] = ids
    for kind, size in (("images", (24, 24)), ("large_images", (32, 40))):
        if kind in kinds:
            result["pixel_values"] = library.randn((2, 3, *size), generator=library.Generator().manual_seed(2))
    return result


def decoder_options(name: str) -> dict[str, Any]:
    """Return all keys of a decoder's configuration."""
    family, options = DECODERS[name]
    return {**(_GPT2 if family == "GPT2" else _DECODER), **options}


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


UNET = {
    "sample_size": 8, "block_out_channels": [16, 32], "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"], "layers_per_block": 1, "cross_attention_dim": 24,
    "attention_head_dim": 2, "norm_num_groups": 8,
}  # fmt: skip
VAE = {
    "block_out_channels": [16, 32], "down_block_types": ["DownEncoderBlock2D"] * 2, "up_block_types": ["UpDecoderBlock2D"] * 2,
    "layers_per_block": 1, "norm_num_groups": 8,
}  # fmt: skip
#: by name: the network's class in diffusers, and its configuration
DIFFUSION: dict[str, tuple[str, dict[str, Any]]] = {
    "unet": ("UNet2DConditionModel", UNET),
    "unet_2": (
        "UNet2DConditionModel",
        {**UNET, "use_linear_projection": True, "attention_head_dim": [2, 4], "layers_per_block": 2},
    ),
    "unet_xl": (
        "UNet2DConditionModel",
        {
            **UNET,
            "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
            "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
            "use_linear_projection": True,
            "transformer_layers_per_block": [1, 2],
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 8,
            "projection_class_embeddings_input_dim": 6 * 8 + 20,
            "time_cond_proj_dim": 12,
        },
    ),
    "vae": ("AutoencoderKL", VAE),
    "vae_plain": (
        "AutoencoderKL",
        {**VAE, "use_quant_conv": False, "use_post_quant_conv": False, "latent_channels": 6},
    ),
}


SD3 = {
    "sample_size": 16, "patch_size": 2, "in_channels": 4, "out_channels": 4, "num_layers": 3, "attention_head_dim": 8,
    "num_attention_heads": 4, "joint_attention_dim": 24, "caption_projection_dim": 32, "pooled_projection_dim": 20,
    "pos_embed_max_size": 12,
}  # fmt: skip
FLUX = {
    "in_channels": 8, "num_layers": 2, "num_single_layers": 2, "attention_head_dim": 16, "num_attention_heads": 2,
    "joint_attention_dim": 24, "pooled_projection_dim": 20, "axes_dims_rope": [4, 6, 6],
}  # fmt: skip
DIFFUSION |= {
    "sd3": ("SD3Transformer2DModel", SD3),
    "sd3_dual": ("SD3Transformer2DModel", {**SD3, "qk_norm": "rms_norm", "dual_attention_layers": [0, 1]}),
    "flux": ("FluxTransformer2DModel", FLUX),
    "flux_guided": ("FluxTransformer2DModel", {**FLUX, "guidance_embeds": True}),
}


def _flow_inputs(library: Any, name: str) -> dict[str, Any]:
    generator = library.Generator().manual_seed(4)
    result = {
        "encoder_hidden_states": library.randn((2, 5, 24), generator=generator),
        "pooled_projections": library.randn((2, 20), generator=generator),
    }
    if name.startswith("sd3"):
        sample = library.randn((2, 4, 8, 12), generator=generator)
        return result | {"hidden_states": sample, "timestep": library.tensor([700.0, 31.0])}
    places = [[0.0, float(row), float(column)] for row in range(3) for column in range(4)]
    result |= {
        "hidden_states": library.randn((2, 12, 8), generator=generator), "timestep": library.tensor([0.7, 0.03]),
        "img_ids": library.tensor(places), "txt_ids": library.zeros(5, 3),
    }  # fmt: skip
    return result | ({"guidance": library.tensor([3.5, 1.0])} if name == "flux_guided" else {})


def diffusion_inputs(library: Any, name: str) -> dict[str, Any]:
    """Return what a network of diffusion is given."""
    if name.startswith(("sd3", "flux")):
        return _flow_inputs(library, name)
    generator = library.Generator().manual_seed(4)
    if name.startswith("vae"):
        return {"images": library.randn((1, 3, 12, 16), generator=generator)}
    result = {
        # Seven is no multiple of two: sizes come back by interpolation.
        "sample": library.randn((2, 4, 8, 7), generator=generator),
        "timestep": library.tensor([7, 431]),
        "encoder_hidden_states": library.randn((2, 5, 24), generator=generator),
    }
    if name == "unet_xl":
        result["timestep_cond"] = library.randn((2, 12), generator=generator)
        result["added_cond_kwargs"] = {
            "text_embeds": library.randn((2, 20), generator=generator),
            "time_ids": library.tensor([[64.0, 64.0, 0.0, 0.0, 64.0, 64.0], [32.0, 48.0, 3.0, 5.0, 64.0, 64.0]]),
        }
    return result


NOISE = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}
#: the scheduler's class in diffusers, and its options
SCHEDULERS: list[tuple[str, dict[str, Any]]] = [
    ("DDIMScheduler", {}),
    ("DDIMScheduler", {**NOISE, "set_alpha_to_one": False, "clip_sample": False}),
    (
        "DDIMScheduler",
        {**NOISE, "prediction_type": "v_prediction", "rescale_betas_zero_snr": True, "timestep_spacing": "trailing"},
    ),
    ("DDIMScheduler", {"prediction_type": "sample", "clip_sample": True}),
    ("DDPMScheduler", {}),
    ("DDPMScheduler", {"beta_schedule": "squaredcos_cap_v2", "variance_type": "fixed_large"}),
    ("LCMScheduler", {}),
    ("PNDMScheduler", {}),
    ("PNDMScheduler", {**NOISE, "skip_prk_steps": True, "set_alpha_to_one": False}),
    ("PNDMScheduler", {**NOISE, "skip_prk_steps": True, "prediction_type": "v_prediction"}),
    ("EulerDiscreteScheduler", NOISE),
    ("EulerDiscreteScheduler", {**NOISE, "timestep_spacing": "leading", "prediction_type": "v_prediction"}),
    ("EulerDiscreteScheduler", {**NOISE, "timestep_spacing": "trailing", "use_karras_sigmas": True}),
    ("EulerDiscreteScheduler", {**NOISE, "use_exponential_sigmas": True, "final_sigmas_type": "sigma_min"}),
    ("EulerAncestralDiscreteScheduler", NOISE),
    ("HeunDiscreteScheduler", NOISE),
    ("HeunDiscreteScheduler", {**NOISE, "use_karras_sigmas": True}),
    ("DPMSolverMultistepScheduler", NOISE),
    ("DPMSolverMultistepScheduler", {**NOISE, "use_karras_sigmas": True, "solver_type": "heun"}),
    ("DPMSolverMultistepScheduler", {**NOISE, "use_karras_sigmas": True, "algorithm_type": "sde-dpmsolver++"}),
    (
        "DPMSolverMultistepScheduler",
        {**NOISE, "timestep_spacing": "leading", "prediction_type": "v_prediction", "final_sigmas_type": "sigma_min"},
    ),
    ("UniPCMultistepScheduler", NOISE),
    ("UniPCMultistepScheduler", {**NOISE, "solver_order": 3, "use_karras_sigmas": True}),
    (
        "UniPCMultistepScheduler",
        {**NOISE, "solver_type": "bh1", "timestep_spacing": "trailing", "final_sigmas_type": "sigma_min"},
    ),
    ("FlowMatchEulerDiscreteScheduler", {"shift": 3.0}),
    ("FlowMatchEulerDiscreteScheduler", {"use_dynamic_shifting": True, "shift_terminal": 0.02}),
]
#: how many steps each takes
STEPS = (8, 20)


def pretended(sample: Any, bias: Any, timestep: float) -> Any:
    """Return what stands for a network's output."""
    return sample * 0.3 + bias * (0.2 * math.sin(timestep / 100))


def write_tokenizer(folder: Path, kind: str) -> None:
    """Write a tokenizer of 97 tokens: "bert" of words and their pieces, "words" of words alone, "speech", Whisper's kind,
    or "t5", which ends texts.
    """
    import tokenizers
    from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

    special = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    words = (
        "the cat dog sat on mat in paris anna bob lives loves red blue house where who this example is photo of a . , ?"
    )
    pieces = [] if kind != "bert" else [f"##{each}" for each in ("s", "ed", "ing", "er", "land")]
    if kind == "speech":
        special = {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
    elif kind in ("words", "t5"):
        special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "eos_token": "[EOS]"}
    names = list(dict.fromkeys(special.values()))
    if kind == "speech":
        names = [
            "<|nothing|>",
            "<|start|>",
            "<|endoftext|>",
            "<|startoftranscript|>",
            "<|en|>",
            "<|fr|>",
            "<|transcribe|>",
        ]
        names.append("<|translate|>")
    vocabulary = [*names, *words.split(), *pieces]
    vocabulary += [f"w{number}" for number in range(97 - len(vocabulary))]
    if kind == "speech":
        # Whatever follows it stands for a time.
        vocabulary[-1] = "<|notimestamps|>"
        names.append(vocabulary[-1])
    ids = {each: number for number, each in enumerate(vocabulary)}
    if kind == "bert":
        backend = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
        backend.normalizer = normalizers.BertNormalizer()
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece()
        backend.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
        )  # fmt: skip
    else:
        backend = tokenizers.Tokenizer(models.WordLevel(ids, unk_token=special["unk_token"]))
        backend.normalizer = normalizers.Lowercase()
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if kind == "t5":
        ends = [("[EOS]", ids["[EOS]"])]
        backend.post_processor = processors.TemplateProcessing(single="$A [EOS]", special_tokens=ends)
    backend.add_special_tokens([AddedToken(each, special=True) for each in names])
    folder.mkdir(parents=True, exist_ok=True)
    backend.save(str(folder / "tokenizer.json"))
    values: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 24, **special}
    if kind == "bert":
        values["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    if kind == "words":
        template = "{% for each in messages %}{{ each.role + ' ' + each.content + ' ' }}{% endfor %}"
        values["chat_template"] = template + "{% if add_generation_prompt %}{{ 'anna' }}{% endif %}"
    (folder / "tokenizer_config.json").write_text(json.dumps(values))


_SENTENCE = "Who loves a blue house? Dogs and cats sats on Paris"
#: what preprocessor_config.json says, by the case of the model
PROCESSORS: dict[str, dict[str, Any]] = {
    "vit_classifier": {
        "image_processor_type": "ViTImageProcessor", "size": {"height": 24, "width": 24}, "resample": 2,
        "image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.6, 0.7],
    },
    "clip": {
        "image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 28}, "crop_size": {"height": 24, "width": 24},
    },
    "siglip": {"image_processor_type": "SiglipImageProcessor", "size": {"height": 24, "width": 24}},
    "whisper_heard": {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 8, "chunk_length": 1},
}  # fmt: skip
#: other names of classes, by task
_NAMES = {
    "zero-shot-classification": {"0": "contradiction", "1": "neutral", "2": "entailment"},
    "ner": {"0": "B-LOC", "1": "O", "2": "I-PER"},
}
_SPEECH = {
    "lang_to_id": {"<|en|>": 4, "<|fr|>": 5}, "task_to_id": {"transcribe": 6, "translate": 7}, "no_timestamps_token_id": 96,
    "is_multilingual": True, "suppress_tokens": [20, 21, 40], "begin_suppress_tokens": [2, 30], "max_new_tokens": 12,
    "decoder_start_token_id": 3, "eos_token_id": 2, "pad_token_id": 0, "bos_token_id": 1, "forced_decoder_ids": [[1, None], [2, 6]],
}  # fmt: skip
#: by name: the task, the case of the model, the tokenizer, and what the pipeline is called with; "image" and "sound" stand for one
CALLS: dict[str, tuple[str, str, str, tuple[Any, ...], dict[str, Any]]] = {
    "class": ("text-classification", "bert_classifier", "bert", (_SENTENCE,), {}),
    "classes": (
        "sentiment-analysis", "bert_classifier", "bert", (["the cat", {"text": "the cat", "text_pair": "is blue"}],),
        {"top_k": None},
    ),
    "logits": ("text-classification", "distilbert_classifier", "bert", ("a dog",), {"top_k": 2, "function_to_apply": "none"}),
    "mask": ("fill-mask", "bert_masked", "bert", ("the [MASK] sat on the mat.",), {"top_k": 3}),
    "masks": ("fill-mask", "distilbert_masked", "bert", (["[MASK] cat [MASK]", "a [MASK]"],), {"top_k": 2}),
    "targets": ("fill-mask", "bert_masked", "bert", ("a [MASK] house",), {"targets": ["red", "blue"]}),
    "states": ("feature-extraction", "distilbert", "bert", (["a red cat", "who?"],), {}),
    **{
        f"tokens_{strategy}": ("ner", "distilbert_tokens", "bert", (_SENTENCE,), {"aggregation_strategy": strategy, **more})
        for strategy, more in (
            ("none", {}), ("simple", {}), ("first", {}), ("average", {"ignore_labels": []}), ("max", {"ignore_labels": ["LOC"]}),
        )
    },
    "fitting": ("zero-shot-classification", "bert_classifier", "bert", ("the cat loves bob", ["red", "house", "dog"]), {}),
    "fitting_each": (
        "zero-shot-classification", "bert_classifier", "bert", (["the cat", "a mat"],),
        {"candidate_labels": "red, house", "multi_label": True, "hypothesis_template": "this photo is {}."},
    ),
    "text": ("text-generation", "llama", "words", (["the cat sat", "who is"],), {"max_new_tokens": 6, "do_sample": False}),
    "continued": ("text-generation", "llama", "words", ("a dog",), {"max_new_tokens": 6, "return_full_text": False, "do_sample": False}),
    "chat": (
        "text-generation", "llama", "words", ([{"role": "bob", "content": "who is anna ?"}],),
        {"max_new_tokens": 5, "do_sample": False},
    ),
    "image": ("image-classification", "vit_classifier", "", ("image",), {"top_k": 2}),
    "image_fitting": ("zero-shot-image-classification", "clip", "words", ("image", ["cat", "red house"]), {"hypothesis_template": "a {} w50"}),
    "image_fitting_each": (
        "zero-shot-image-classification", "siglip", "words", ("image", ["cat", "dog"]), {"hypothesis_template": "a {}"},
    ),
    "said": ("automatic-speech-recognition", "whisper_heard", "speech", ("sound",), {}),
    "said_in_french": (
        "automatic-speech-recognition", "whisper_heard", "speech", ("sound",), {"language": "fr", "task": "translate"},
    ),
}  # fmt: skip


def write_call(name: str, folder: Path) -> None:
    """Write what a pipeline reads beside the weights."""
    task, case, tokenizer, _, _ = CALLS[name]
    if tokenizer:
        write_tokenizer(folder, tokenizer)
    config = json.loads((folder / "config.json").read_text())
    if task in _NAMES:
        config["id2label"] = _NAMES[task]
        config["label2id"] = {each: int(number) for number, each in _NAMES[task].items()}
    if case == "clip":
        # What the first checkpoints say, in which the largest token ends a text.
        config["text_config"]["eos_token_id"] = 2
    (folder / "config.json").write_text(json.dumps(config))
    if case in PROCESSORS:
        (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSORS[case]))
    if case == "whisper_heard":
        (folder / "generation_config.json").write_text(json.dumps(_SPEECH))


def heard_sound(library: Any) -> Any:
    """Return a second of two tones that fade, float32 [16000]."""
    time = library.arange(16000) / 16000.0
    return (time * 2764.6).sin() * 0.5 * (1 - time) + (time * 7539.8).sin() * 0.2 * time


def seen_image() -> Any:
    """Return an image of Pillow, 40 wide and 30 high."""
    from PIL import Image

    made = Image.new("RGB", (40, 30))
    for x in range(40):
        for y in range(30):
            made.putpixel((x, y), (6 * x, 8 * y, (3 * x * y) % 256))
    return made


def given_to(name: str, library: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return what a pipeline is called with."""
    _, _, _, given, options = CALLS[name]
    sound = {"raw": heard_sound(library), "sampling_rate": 16000}
    return [
        {"image": seen_image(), "sound": sound}.get(each, each) if isinstance(each, str) else each for each in given
    ], options
