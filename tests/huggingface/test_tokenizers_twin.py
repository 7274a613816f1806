"""The package tokenizers in Python divides texts as the compiled one does."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_drop_in import tokenizers_twin as twin

real = pytest.importorskip("tokenizers")
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

#: what vocabularies are made of
CORPUS = [
    *(path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parents[2].glob("docs/*.md"))[:6]),
    *["Grüße aus München, Привет мир, 你好世界 こんにちは 한국어 naïve café \U0001f469\u200d\U0001f467"] * 30,
]
END = "<|endoftext|>"
OF_LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
OF_CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def bytes_of(**options: Any) -> Any:
    made = real.Tokenizer(models.BPE(**options))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    suffix = {key: value for key, value in options.items() if key == "end_of_word_suffix"}
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=[END],
        initial_alphabet=made.pre_tokenizer.alphabet(),
        show_progress=False,
        **suffix,
    )
    made.train_from_iterator(CORPUS, trainer)
    return made


def gpt() -> Any:
    made = bytes_of()
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    return made


def llama_with_split() -> Any:
    made = bytes_of()
    made.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(real.Regex(OF_LLAMA), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    template = processors.TemplateProcessing(f"{END} $A", f"{END} $A {END}:1 $B:1", [(END, 0)])
    made.post_processor = processors.Sequence([processors.ByteLevel(), template])
    made.add_tokens(["special word", real.AddedToken("ten", single_word=True)])
    made.add_tokens([real.AddedToken("<tool>", lstrip=True, rstrip=True)])
    made.enable_truncation(20, stride=3)
    return made


def roberta() -> Any:
    made = bytes_of()
    made.pre_tokenizer = pre_tokenizers.ByteLevel()
    made.post_processor = processors.RobertaProcessing((END, 0), ("a", 65))
    made.enable_truncation(9, strategy="longest_first", direction="left")
    return made


def clip() -> Any:
    made = bytes_of(end_of_word_suffix="</w>", unk_token=END)
    spaces = normalizers.Replace(real.Regex(r"\s+"), " ")
    made.normalizer = normalizers.Sequence([normalizers.NFC(), spaces, normalizers.Lowercase()])
    split = pre_tokenizers.Split(real.Regex(OF_CLIP), "removed", invert=True)
    made.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return made


def llama_with_bytes() -> Any:
    made = real.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    named = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    made.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=600, special_tokens=named, show_progress=False, limit_alphabet=60)
    )
    made.pre_tokenizer = None
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(steps)
    made.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s>:1 $B:1", [("<s>", 1)])
    return made


def bert() -> Any:
    made = real.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    named = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator(
        CORPUS, trainers.WordPieceTrainer(vocab_size=500, special_tokens=named, show_progress=False)
    )
    made.decoder, made.post_processor = decoders.WordPiece(), processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.enable_padding(pad_to_multiple_of=4)
    return made


def unigram() -> Any:
    made = real.Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Strip(), normalizers.Replace(real.Regex(" {2,}"), " ")]
    )
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=["<pad>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(CORPUS, trainer)
    made.post_processor = processors.TemplateProcessing("$A <pad>", "$A <pad> $B <pad>", [("<pad>", 0)])
    return made


def words() -> Any:
    made = real.Tokenizer(models.WordLevel(unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])
    steps = [
        pre_tokenizers.Whitespace(),
        pre_tokenizers.Digits(True),
        pre_tokenizers.Punctuation("merged_with_previous"),
    ]
    made.pre_tokenizer = pre_tokenizers.Sequence(steps)
    made.train_from_iterator(
        CORPUS, trainers.WordLevelTrainer(vocab_size=300, special_tokens=["<unk>"], show_progress=False)
    )
    made.enable_truncation(7, stride=2)
    return made


KINDS: tuple[Callable[[], Any], ...] = (gpt, llama_with_split, roberta, clip, llama_with_bytes, bert, unigram, words)


@cache
def pair_of(make: Callable[[], Any]) -> tuple[Any, Any]:
    made = make()
    return made, twin.Tokenizer.from_str(made.to_str())


PARTS = [
    *"abcdefghijklmnopqrstuvwxyz  \n\t.,!?'09éИß你한ﬁ\xa0\u3000\u2028İΣς½²▁", "e\u0301", "\u1112\u1161\u11ab", "\U0001f469\u200d\U0001f467",
    "tensor", "the ", END, "<tool>", "special word", " ten ", "[MASK]", "can't ", "WE'LL ", "##x", "<s>",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PARTS), max_size=40).map("".join)
ATTRIBUTES = ("ids", "type_ids", "tokens", "special_tokens_mask", "attention_mask", "word_ids", "sequence_ids")


def outcome(function: Callable[[], Any], around: bool) -> Any:
    try:
        found = function()
    except Exception:
        return "refused"
    # Of the windows that are left of two texts without tokens around them, the compiled package does not tell which is of which.
    names = [name for name in ATTRIBUTES if around or name not in ("type_ids", "sequence_ids")]
    rest = [[getattr(each, name) for name in names] for each in found.overflowing]
    return [getattr(found, name) for name in ATTRIBUTES], rest


@pytest.mark.parametrize("make", KINDS)
@settings(max_examples=60, deadline=None)
@given(text=TEXTS, other=st.none() | TEXTS, special=st.booleans())
def test_texts_become_the_same_tokens(make: Callable[[], Any], text: str, other: str | None, special: bool) -> None:
    compiled, ours = pair_of(make)
    around = special and compiled.post_processor is not None
    expected = outcome(lambda: compiled.encode(text, other, add_special_tokens=special), around)
    found = outcome(lambda: ours.encode(text, other, add_special_tokens=special), around)
    assert found == expected
    if expected != "refused":
        ids = expected[0][0]
        for skip in (True, False):
            assert ours.decode(ids, skip_special_tokens=skip) == compiled.decode(ids, skip_special_tokens=skip)


@pytest.mark.parametrize("make", KINDS)
@settings(max_examples=20, deadline=None)
@given(texts=st.lists(st.text("ab tensor,.'9\n", max_size=30), min_size=1, max_size=4))
def test_places_and_batches(make: Callable[[], Any], texts: list[str]) -> None:
    """Where tokens are is the same, too, in texts that normal forms leave alone; batches are padded to one length."""
    compiled, ours = pair_of(make)
    for expected, found in zip(compiled.encode_batch(texts), ours.encode_batch(texts), strict=True):
        assert (found.ids, found.offsets, found.attention_mask) == (
            expected.ids,
            expected.offsets,
            expected.attention_mask,
        )
        for place in range(len(expected.ids)):
            assert found.token_to_chars(place) == expected.token_to_chars(place)
            assert found.token_to_word(place) == expected.token_to_word(place)
        for place in range(max(map(len, texts))):
            assert found.char_to_token(place) == expected.char_to_token(place)
            assert found.char_to_word(place) == expected.char_to_word(place)
        for word in {each for each in expected.word_ids if each is not None}:
            assert found.word_to_tokens(word) == expected.word_to_tokens(word)
            assert found.word_to_chars(word) == expected.word_to_chars(word)


@pytest.mark.parametrize("make", KINDS)
def test_files_are_the_same(make: Callable[[], Any], tmp_path: Path) -> None:
    compiled, ours = pair_of(make)
    assert json.loads(ours.to_str()) == json.loads(compiled.to_str())
    ours.save(str(tmp_path / "tokenizer.json"))
    again = real.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert again.encode(CORPUS[-1]).ids == compiled.encode(CORPUS[-1]).ids
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert json.loads(other.to_str()) == json.loads(compiled.to_str())
    assert ours.get_vocab() == compiled.get_vocab() and ours.get_vocab_size() == compiled.get_vocab_size()
    for name in ("truncation", "padding"):
        assert getattr(ours, name) == getattr(compiled, name)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["ab", "the", END, "zq", " x", "ü"]), st.booleans(), st.booleans(), st.booleans()),
        max_size=5,
    ),
    TEXTS,
)
def test_tokens_are_added(added: list[tuple[str, bool, bool, bool]], text: str) -> None:
    made = [copy.deepcopy(pair_of(gpt)[0]), copy.deepcopy(pair_of(gpt)[1])]
    for content, special, single, plain in added:
        counts = []
        for each, module in zip(made, (real, twin), strict=True):
            token = content if plain else module.AddedToken(content, single_word=single, special=special)
            counts.append((each.add_special_tokens if special else each.add_tokens)([token]))
        assert counts[0] == counts[1]
    compiled, ours = made
    assert {number: repr(each) for number, each in ours.get_added_tokens_decoder().items()} == {
        number: repr(each) for number, each in compiled.get_added_tokens_decoder().items()
    }
    for plainly in (False, True):
        compiled.encode_special_tokens = ours.encode_special_tokens = plainly
        assert ours.encode(text + "zq the").ids == compiled.encode(text + "zq the").ids


def test_what_is_not_known_is_refused_by_name() -> None:
    described = json.loads(pair_of(gpt)[0].to_str())
    for part, kind in (("normalizer", "Precompiled"), ("pre_tokenizer", "UnicodeScripts"), ("decoder", "CTC")):
        with pytest.raises(ValueError, match=kind):
            twin.Tokenizer.from_str(json.dumps(described | {part: {"type": kind}}))
    with pytest.raises(ValueError, match="dropout"):
        twin.models.BPE(dropout=0.1)
    with pytest.raises(ValueError, match="scripts"):
        twin.pre_tokenizers.Split(twin.Regex(r"\p{Han}"), "isolated")
    with pytest.raises(NotImplementedError, match="compiled package"):
        type("BpeTrainer", (twin.Trainer,), {})(vocab_size=3)


#: run where there is no tokenizers: what transformers finds instead
WITHOUT = """
import importlib.machinery, importlib.metadata, importlib.util, json, sys
real, found = importlib.machinery.PathFinder.find_spec, importlib.metadata.MetadataPathFinder.find_distributions
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] == "tokenizers" else real(name, path, target)
importlib.machinery.PathFinder.find_spec = find_spec
importlib.metadata.MetadataPathFinder.find_distributions = lambda context=importlib.metadata.DistributionFinder.Context(): (
    each for each in found(context) if (each.name or "").lower() != "tokenizers")
assert importlib.util.find_spec("tokenizers") is None
import webgpu_torch
webgpu_torch.install_as_torch()
import tokenizers
from transformers import AutoTokenizer
assert tokenizers.Tokenizer.__module__.startswith("webgpu_torch_drop_in")
def told(folder):
    made = AutoTokenizer.from_pretrained(folder)
    given = made(json.loads(sys.argv[1]), padding=True, truncation=True, max_length=12, return_offsets_mapping=True)
    return [dict(given), made.batch_decode(given["input_ids"], skip_special_tokens=True), made.vocab_size, len(made)]
print(json.dumps([told(folder) for folder in sys.argv[2:]]))
"""


def test_transformers_finds_it(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    texts = ["The tensors can't, 123 ten é!", "one", "<tool> special word  日本"]
    folders, expected = [], []
    for make in (llama_with_split, llama_with_bytes, bert):
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=pair_of(make)[0], pad_token="a", eos_token="b"
        )
        folders.append(str(tmp_path / make.__name__))
        tokenizer.save_pretrained(folders[-1])
        again = transformers.AutoTokenizer.from_pretrained(folders[-1])
        given = again(texts, padding=True, truncation=True, max_length=12, return_offsets_mapping=True)
        decoded = again.batch_decode(given["input_ids"], skip_special_tokens=True)
        expected.append([dict(given), decoded, again.vocab_size, len(again)])
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT, json.dumps(texts), *folders]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.strip().splitlines()[-1]) == json.loads(json.dumps(expected))
