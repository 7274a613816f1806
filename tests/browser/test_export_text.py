"""Exported language models: the same tokens as in Python, in Node and in Chromium."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import tokenizers
import webgpu_torch as torch
import webgpu_torch_web
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from webgpu_torch_models.gpt2 import GPT2Config, GPT2LMHeadModel
from webgpu_torch_models.tokenizer import Tokenizer

RUNNER = Path(webgpu_torch_web.__file__).parent / "runner"
TEXTS = [
    "Hello world, it's a test! We've 42 reasons (or 1,234.5).", "  two  spaces\n\n\tand tabs  ", "Größe naïve “quotes” — 日本語 🙂👍🏽",
    "", " ", "a\u0301 e\u0301 combining", "<|endoftext|>The end<|endoftext|>", "don't DON'T I'LL x²½ ٣٤ \u00a0 nbsp\r\nline",
    "the quick brown fox jumps over the lazy dog " * 3,
]  # fmt: skip
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def trained(before, **options) -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.BPE(**options))
    made.pre_tokenizer = before
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(TEXTS * 2, trainer)
    return made


def tokenizer_of(kind: str) -> tokenizers.Tokenizer:
    """Return a tokenizer built like one of well-known models."""
    if kind == "gpt2":
        return trained(pre_tokenizers.ByteLevel(add_prefix_space=False))
    if kind == "prefix":
        made = trained(pre_tokenizers.ByteLevel(add_prefix_space=True))
        made.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
        return made
    if kind == "llama":
        split = pre_tokenizers.Split(tokenizers.Regex(LLAMA), "isolated")
        bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        made = trained(pre_tokenizers.Sequence([split, bytes_only]), ignore_merges=True)
        made.post_processor = processors.TemplateProcessing(
            single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", made.token_to_id("<|endoftext|>"))]
        )
        return made
    if kind == "clip":
        made = trained(pre_tokenizers.ByteLevel(add_prefix_space=False), end_of_word_suffix="</w>", unk_token="!")
        space = normalizers.Replace(tokenizers.Regex(r"\s+"), " ")
        made.normalizer = normalizers.Sequence([normalizers.NFC(), space, normalizers.Lowercase()])
        split = pre_tokenizers.Split(tokenizers.Regex(CLIP), "removed", invert=True)
        made.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False)])
        end = "<|endoftext|>", made.token_to_id("<|endoftext|>")
        made.post_processor = processors.RobertaProcessing(end, end)
        return made
    parts = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    return trained(pre_tokenizers.Sequence(parts))


KINDS = ("gpt2", "prefix", "llama", "clip", "digits")


def test_tokenizers(engine):
    given = {kind: tokenizer_of(kind) for kind in KINDS}
    model = torch.nn.Linear(1, 1)
    torch.web.export(model, torch.ones(1), engine.root / "any")
    shutil.copy(RUNNER / "tokenizer.js", engine.root / "any")
    for kind, each in given.items():
        (engine.root / f"{kind}.json").write_text(each.to_str(), encoding="utf-8")
    job = """
import TEXTS from "./texts.mjs";
export default async ({ base }) => {
  const { Tokenizer } = await import(`${base}any/tokenizer.js`);
  const found = {};
  for (const [kind, described] of Object.entries(TEXTS.tokenizers)) {
    const tokenizer = new Tokenizer(described);
    found[kind] = TEXTS.texts.map((text) => {
      const ids = tokenizer.encode(text);
      return [ids, tokenizer.decode(ids), tokenizer.decode(ids, { skipSpecialTokens: true }),
        tokenizer.encode(text, { addSpecialTokens: false })];
    });
  }
  return found;
};"""
    described = {kind: json.loads(each.to_str()) for kind, each in given.items()}
    (engine.root / "texts.mjs").write_text(
        f"export default {json.dumps({'tokenizers': described, 'texts': TEXTS})};", encoding="utf-8"
    )
    found = engine.run(job)
    for kind, each in given.items():
        for text, (ids, decoded, plain, without) in zip(TEXTS, found[kind], strict=True):
            assert ids == each.encode(text).ids, (kind, text)
            assert without == each.encode(text, add_special_tokens=False).ids, (kind, text)
            if kind == "clip":
                # Nobody reads CLIP's tokens as text.
                continue
            assert decoded == each.decode(ids, skip_special_tokens=False), (kind, text)
            assert plain == each.decode(ids, skip_special_tokens=True), (kind, text)


def language_model(vocabulary: int) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=vocabulary, n_positions=64, n_embd=32, n_layer=2, n_head=4)
    model = GPT2LMHeadModel(config).eval()
    for each in model.parameters():
        # Answers of a network of small random weights repeat one token.
        each.data.mul_(4.0)
    return model


GENERATE = """
export default async ({ base, gpu }) => {
  const { loadText } = await import(`${base}gpt/text.js`);
  const text = await loadText(`${base}gpt`, { gpu });
  const found = {};
  for (const prompt of PROMPTS) {
    const ids = text.tokenizer.encode(prompt), answer = [];
    for await (const token of text.tokens(ids, { maxTokens: 32 })) answer.push(token);
    found[prompt] = { ids, answer, text: await text.generate(prompt, { maxTokens: 4 }) };
  }
  const options = { maxTokens: 8, temperature: 0.8, topK: 5, seed: 7 }, pieces = [];
  const drawn = await text.generate("Hello", { ...options, onText: (piece) => pieces.push(piece) });
  const again = await text.generate("Hello", options);
  const other = await text.generate("Hello", { ...options, seed: 8 });
  return { found, drawn, again, other, pieces: pieces.join("") };
};"""


@pytest.mark.slow
def test_language_model(engine):
    tokenizer = Tokenizer(tokenizer_of("gpt2"))
    model = language_model(len(tokenizer))
    torch.web.export_text(model, tokenizer, engine.root / "gpt", capacity=64)
    # One token, a prefill, and one that reaches the end of the cache.
    prompts = ["t", "Hello world, it's", "the quick brown fox jumps over the lazy dog " * 3]
    answers = engine.run(GENERATE.replace("PROMPTS", json.dumps(prompts)))
    for prompt in prompts:
        found = answers["found"][prompt]
        ids = tokenizer.encode(prompt)
        assert found["ids"] == ids
        count = min(32, 64 - len(ids))
        expected = model.generate(torch.tensor([ids]), max_new_tokens=count, do_sample=False)[0].tolist()[len(ids) :]
        assert len(set(expected)) > 3 and found["answer"] == expected
        assert found["text"] == tokenizer.decode(expected[:4])
    assert answers["drawn"] == answers["again"] == answers["pieces"] and answers["drawn"] != answers["other"]


def test_sampling(engine):
    """What is drawn has the frequencies that temperature, top-k and top-p say."""
    for name in ("text.js", "tokenizer.js", "runner.js", "elements.js"):
        shutil.copy(RUNNER / name, engine.root)
    job = """
export default async ({ base }) => {
  const { sample } = await import(`${base}text.js`);
  const logits = Float32Array.of(1, 3, 2, 0, -1), counts = {};
  for (const [name, options] of Object.entries({
    plain: {}, cold: { temperature: 0.5 }, three: { topK: 3 }, most: { topP: 0.8 }, all: { topK: 0 } })) {
    counts[name] = [0, 0, 0, 0, 0];
    for (let i = 0; i < 1000; i++) counts[name][sample(logits, options, () => (i + 0.5) / 1000)]++;
  }
  return counts;
};"""
    found = engine.run(job)
    logits = torch.tensor([1.0, 3.0, 2.0, 0.0, -1.0])
    plain = logits.softmax(-1)
    three = torch.where(logits > 0, plain, torch.tensor(0.0))
    most = torch.where(logits > 1, plain, torch.tensor(0.0))
    expected = {
        "plain": plain, "all": plain, "cold": (logits / 0.5).softmax(-1), "three": three / three.sum(),
        "most": most / most.sum(),
    }  # fmt: skip
    for name, each in expected.items():
        assert max(abs(count / 1000 - p) for count, p in zip(found[name], each.tolist(), strict=True)) <= 0.0011, name


def test_other_tokenizers_are_refused(tmp_path):
    made = tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(torch.web.ExportError, match="pre_tokenizer is of kind Whitespace"):
        torch.web.export_text(language_model(8), Tokenizer(made), tmp_path)
