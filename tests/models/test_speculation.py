"""A model that proposes tokens changes how fast they come, and not which."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import pytest
import webgpu_torch_core as torch
from recorded_models import load
from webgpu_torch_models import GPT2Config, GPT2LMHeadModel
from webgpu_torch_models.generation.speculation import Speculation, accept_drawn

PROMPT = [[5, 9, 2, 40]]


@functools.cache
def pair(name: str, device: str) -> tuple[Any, Any]:
    """Return a model, and one that is so like it that it proposes right tokens and wrong ones."""
    if name == "gpt2":
        torch.manual_seed(0)
        config = GPT2Config(initializer_range=0.3, vocab_size=97, n_positions=32, n_embd=16, n_layer=1, n_head=2)
        model, assistant = (GPT2LMHeadModel(config).eval().to(device) for _ in range(2))
        assistant.load_state_dict(model.state_dict())
    else:
        with tempfile.TemporaryDirectory() as folder:
            model, assistant = load(name, Path(folder, "a"), device), load(name, Path(folder, "b"), device)
    torch.manual_seed(1)
    with torch.no_grad():
        for each in assistant.parameters():
            each.add_(torch.randn_like(each) * each.std(unbiased=False) * 0.04)
    return model, assistant


def accepted(model: Any, assistant: Any, device: str, **options: Any) -> tuple[int, int]:
    """Return how many rounds there were, and how many proposed tokens were accepted."""
    config = model.generation_config.changed(**options)
    ids = torch.tensor(PROMPT, device=device)
    with torch.no_grad():
        found = Speculation(model, assistant, config, ids, None, False, None)
        list(found.tokens())
    return found.rounds, found.accepted


@pytest.mark.slow_on("llama", "llama_dynamic", "gemma2", "mistral", "plain")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"repetition_penalty": 1.4, "num_assistant_tokens": 3, "suppress_tokens": [16, 9]},
        {
            "no_repeat_ngram_size": 1,
            "bad_words_ids": [[1, 2], [6]],
            "forced_eos_token_id": 5,
        },
    ],
    ids=["plain", "penalty", "rules"],
)
@pytest.mark.parametrize("name", ["gpt2", "llama", "llama_dynamic", "gemma2", "mistral"])
def test_the_likeliest_tokens_are_the_same(name: str, options: dict[str, Any]) -> None:
    model, assistant = pair(name, "cpu")
    ids = torch.tensor(PROMPT)
    wanted = model.generate(ids, max_new_tokens=16, **options).tolist()
    assert model.generate(ids, assistant_model=assistant, max_new_tokens=16, **options).tolist() == wanted
    rounds, kept = accepted(model, assistant, "cpu", max_new_tokens=16, **options)
    most = options.get("num_assistant_tokens", 5)
    assert 0 < kept < rounds * most, "the case is to have right proposals and wrong ones"


@pytest.mark.slow
def test_endings_padding_and_streams() -> None:
    model, assistant = pair("llama", "cpu")
    ids, mask = torch.tensor([[0, 0, *PROMPT[0]]]), torch.tensor([[0, 0, 1, 1, 1, 1]])
    options: dict[str, Any] = {"attention_mask": mask, "max_new_tokens": 16}
    plain = model.generate(ids, **options)[0, 6:].tolist()
    options["eos_token_id"] = plain[9]
    wanted = model.generate(ids, **options).tolist()
    assert model.generate(ids, assistant_model=assistant, **options).tolist() == wanted
    streamed = [token for [token] in model.stream(ids, assistant_model=assistant, **options)]
    assert streamed == wanted[0][6:] == plain[: plain.index(plain[9]) + 1]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"do_sample": True, "repetition_penalty": 1.2}], ids=["likeliest", "drawn"])
def test_captured_rounds(options: dict[str, Any], device: str) -> None:
    """Captured and uncaptured rounds give the same tokens."""
    model, assistant = pair("llama", device)
    ids = torch.tensor(PROMPT, device=device)

    def made(compile: bool) -> Any:
        own = torch.Generator(device).manual_seed(4)
        given = {"assistant_model": assistant, "generator": own, "compile": compile, "max_new_tokens": 16}
        return model.generate(ids, **given, **options).tolist()

    assert made(True) == made(False)
    if not options:
        assert made(True) == model.generate(ids, max_new_tokens=16).tolist()


def chi_square(counts: list[int], shares: list[float]) -> float:
    total = sum(counts)
    return sum((count - total * share) ** 2 / (total * share) for count, share in zip(counts, shares, strict=True))


def test_drawn_tokens_are_distributed_as_the_model_says() -> None:
    """Of a pair of proposals far from the model's wishes: what comes out is distributed as the model wishes."""
    p = torch.tensor([[0.6, 0.2, 0.1, 0.1], [0.1, 0.5, 0.3, 0.1], [0.25, 0.25, 0.4, 0.1]])
    q = torch.tensor([[0.2, 0.1, 0.1, 0.6], [0.3, 0.3, 0.1, 0.3]])
    torch.manual_seed(6)
    first, second, third = [0] * 4, [0] * 4, [0] * 4
    for _ in range(300):
        proposed = torch.multinomial(q, 1).squeeze(1)
        *tokens, kept = accept_drawn(p, proposed, q).tolist()
        for counts, token in zip((first, second, third), tokens[: kept + 1]):
            counts[token] += 1
    # 21.1: one in ten thousand for three degrees of freedom
    for counts, shares in zip((first, second, third), p.tolist(), strict=True):
        assert sum(counts) > 40 and chi_square(counts, shares) < 21.1, (counts, shares)


@pytest.mark.slow
def test_drawn_texts_are_distributed_as_without() -> None:
    """Pairs of tokens after a prompt, 600 of them, against the probabilities that the model gives."""
    model, assistant = pair("llama", "cpu")
    ids, options = torch.tensor(PROMPT), {"do_sample": True, "top_k": 3, "temperature": 2.0}
    shares: dict[tuple[int, ...], float] = {}

    def after(tokens: list[int]) -> list[tuple[int, float]]:
        with torch.no_grad():
            best = torch.topk(model(torch.tensor([PROMPT[0] + tokens])).logits[0, -1] / 2.0, 3)
        return list(zip(best[1].tolist(), best[0].softmax(-1).tolist(), strict=True))

    for first, one in after([]):
        for second, two in after([first]):
            for third, three in after([first, second]):
                shares[first, second, third] = one * two * three
    torch.manual_seed(2)
    counts = dict.fromkeys(shares, 0)
    for _ in range(600):
        found = model.generate(ids, assistant_model=assistant, max_new_tokens=3, **options)[0, 4:].tolist()
        counts[tuple(found)] += 1
    common = [key for key in shares if shares[key] > 0.01]
    # 67.6: one in a hundred thousand for 26 degrees of freedom
    assert chi_square([counts[key] for key in common], [shares[key] for key in common]) < 67.6


def test_refusals() -> None:
    model, assistant = pair("gpt2", "cpu")
    ids = torch.tensor(PROMPT)
    with pytest.raises(ValueError, match="proposes no tokens to num_beams=2"):
        model.generate(ids, assistant_model=assistant, num_beams=2)
    with pytest.raises(ValueError, match="works on one sequence at a time, got 2"):
        model.generate(ids.repeat(2, 1), assistant_model=assistant)
    with pytest.raises(ValueError, match="num_assistant_tokens must be at least 1, got 0"):
        model.generate(ids, assistant_model=assistant, num_assistant_tokens=0)
    small = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=8, n_layer=1, n_head=1))
    with pytest.raises(ValueError, match="has a vocabulary of 50 tokens, the model one of 97"):
        model.generate(ids, assistant_model=small)
    small = GPT2LMHeadModel(GPT2Config(vocab_size=97, n_positions=16, n_embd=8, n_layer=1, n_head=1)).eval()
    with pytest.raises(ValueError, match="more than the model's n_positions=16"):
        model.generate(ids, assistant_model=small, max_new_tokens=20)
    small.starts_anew_with_variant = True
    with pytest.raises(ValueError, match="LongRoPE"):
        model.generate(ids, assistant_model=small, max_new_tokens=4)
