"""Tokenizers load, encode as transformers does, and decode in a stream without broken characters."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers
from webgpu_torch_models import AutoTokenizer, Tokenizer

TEXT = "hello wörld 🎉, the été of tensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=280,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(["hello world, the tensors"] * 3, trainer)
    Tokenizer(backend, {"eos_token": "<|endoftext|>"}).save_pretrained(tmp_path)
    return tmp_path


def test_encoding(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.encode(TEXT)
    assert ids == transformers.AutoTokenizer.from_pretrained(folder).encode(TEXT)
    assert tokenizer.decode(ids) == TEXT
    assert tokenizer.eos_token_id == 0
    assert tokenizer.pad_token_id is None


def test_streaming_gives_whole_characters(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    stream = tokenizer.stream()
    pieces = [stream.put(token) for token in tokenizer.encode(TEXT)]
    assert "".join(pieces) == TEXT
    assert "🎉" in pieces
    assert not any("\ufffd" in piece for piece in pieces)
    cut = tokenizer.stream()
    given = cut.put(tokenizer.encode("ö")[:1])
    assert given == ""
    assert cut.end() == "\ufffd"


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has neither tokenizer.json nor vocab.json and merges.txt"):
        AutoTokenizer.from_pretrained(tmp_path)
