"""Writes small checkpoints with tokenizers and processors, as the hub has them: ``python tiny_checkpoints.py FOLDER NAME…``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

TEXT = """The quick brown fox jumps over the lazy dog. A tensor is an array of numbers, and a graph says how numbers
come from numbers. Once upon a time there was a small model that knew few words; it said them again and again."""
CHAT = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def tokenizer(chat: bool = False) -> Any:
    """Return a byte-level tokenizer trained on the text above."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    trained = ByteLevelBPETokenizer()
    special = ["<pad>", "<s>", "</s>", "<user>", "<assistant>", "<system>"]
    trained.train_from_iterator([TEXT], vocab_size=400, min_frequency=1, special_tokens=special, show_progress=False)
    made = PreTrainedTokenizerFast(
        tokenizer_object=trained._tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )
    if chat:
        made.chat_template = CHAT
    return made


def causal(folder: Path, chat: bool = True) -> None:
    """Write a Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    words = tokenizer(chat)
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)


def plain(folder: Path) -> None:
    """Write a Llama without a chat template."""
    causal(folder, chat=False)


def _bert_config(words: Any) -> Any:
    from transformers import BertConfig

    return BertConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=128, pad_token_id=0, id2label={0: "bad", 1: "fair", 2: "good"},
        label2id={"bad": 0, "fair": 1, "good": 2},
    )  # fmt: skip


def encoder(folder: Path) -> None:
    """Write a BERT."""
    from transformers import BertModel

    words = tokenizer()
    BertModel(_bert_config(words)).save_pretrained(folder)
    words.save_pretrained(folder)


def sentiment(folder: Path) -> None:
    """Write a BERT that tells three classes of texts apart."""
    from transformers import BertForSequenceClassification

    words = tokenizer()
    BertForSequenceClassification(_bert_config(words)).save_pretrained(folder)
    words.save_pretrained(folder)


def pictures(folder: Path) -> None:
    """Write a ViT that tells four classes of images apart."""
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    labels = {0: "cat", 1: "dog", 2: "bird", 3: "fish"}
    config = ViTConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8,
        id2label=labels, label2id={label: index for index, label in labels.items()},
    )  # fmt: skip
    ViTForImageClassification(config).save_pretrained(folder)
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)


def speech(folder: Path) -> None:
    """Write a Whisper for half a second of sound."""
    from transformers import (
        WhisperConfig,
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
        WhisperProcessor,
        WhisperTokenizer,
    )

    words = tokenizer()
    vocabulary = words.get_vocab()
    special = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"]
    made = WhisperTokenizer(vocab=vocabulary, merges=[], additional_special_tokens=special)
    size = len(made)
    ids = {name: made.convert_tokens_to_ids(name) for name in special}
    config = WhisperConfig(
        vocab_size=size, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, num_mel_bins=16, max_source_positions=25,
        max_target_positions=32, decoder_start_token_id=ids["<|startoftranscript|>"], pad_token_id=ids["<|endoftext|>"],
        bos_token_id=ids["<|endoftext|>"], eos_token_id=ids["<|endoftext|>"], suppress_tokens=None,
        begin_suppress_tokens=None,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config)
    model.generation_config.max_length = 12
    model.save_pretrained(folder)
    extractor = WhisperFeatureExtractor(feature_size=16, chunk_length=0.5, sampling_rate=16000)
    extractor.n_samples, extractor.nb_max_frames = 8000, 50
    WhisperProcessor(extractor, made).save_pretrained(folder)


def diffusion(folder: Path) -> None:
    """Write a Stable Diffusion pipeline."""
    import tiny_pipelines

    tiny_pipelines._stable_diffusion().save_pretrained(folder)


def main() -> None:
    """Write the checkpoints named on the command line, with the torch that is installed."""
    import torch

    root = Path(sys.argv[1])
    for name in sys.argv[2:]:
        torch.manual_seed(0)
        np.random.seed(0)
        {each.__name__: each for each in (causal, plain, encoder, sentiment, pictures, speech, diffusion)}[name](
            root / name
        )


if __name__ == "__main__":
    main()
