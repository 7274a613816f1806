"""Requests that join and leave a running batch get, each, the tokens that they get alone, and leave nothing behind."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import pytest
import webgpu_torch_core as torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_models import load
from test_generation import Letters
from webgpu_torch_models import GPT2Config, GPT2LMHeadModel
from webgpu_torch_models.generation import ContinuousBatch, Request

#: prompts, and how they go on
JOBS: tuple[tuple[list[int], dict[str, Any]], ...] = (
    ([5, 9, 2], {"suppress_tokens": [24, 8], "begin_suppress_tokens": [96, 1]}),
    ([7] * 17, {"repetition_penalty": 1.4, "no_repeat_ngram_size": 3, "bad_words_ids": [[7], [7, 7, 60]]}),
    ([11, 3, 8, 60, 61, 62, 4, 90], {"do_sample": True}),
    (
        [40],
        {
            "do_sample": True,
            "top_k": 0,
            "top_p": 0.8,
            "temperature": 0.7,
            "no_repeat_ngram_size": 2,
            "forced_bos_token_id": 9,
        },
    ),
    ([1, 2, 3, 4, 5, 6], {"do_sample": True, "top_k": 9, "min_p": 0.05, "repetition_penalty": 1.3}),
)
LONGEST = 10
PAGES = 16


@functools.cache
def model_of(name: str, device: str) -> Any:
    if name == "gpt2":
        torch.manual_seed(0)
        config = GPT2Config(
            initializer_range=0.3, vocab_size=97, n_positions=80, n_embd=16, n_layer=1, n_head=2, eos_token_id=None
        )
        return GPT2LMHeadModel(config).eval().to(device)
    with tempfile.TemporaryDirectory() as folder:
        return load(name, Path(folder), device)


@functools.cache
def alone(name: str, device: str, job: int, tokens: int, top_k: int | None = None) -> list[int]:
    """Return what a job gets by itself."""
    prompt, options = JOBS[job]
    options = options if top_k is None else {**options, "top_k": top_k}
    generator = torch.Generator(device).manual_seed(job)
    ids = torch.tensor([prompt], device=device)
    found = model_of(name, device).generate(ids, generator=generator, max_new_tokens=tokens, **options)
    return found[0, len(prompt) :].tolist()


def batch_of(name: str, device: str) -> ContinuousBatch:
    return ContinuousBatch(model_of(name, device), Letters(), pages=PAGES, page_size=4, batch_sizes=(1, 2, 4))  # type: ignore[arg-type]


def submit(batch: ContinuousBatch, job: int, **options: Any) -> Request:
    return batch.submit(JOBS[job][0], seed=job, **{"max_new_tokens": LONGEST, **JOBS[job][1], **options})


def finish(batch: ContinuousBatch) -> None:
    while batch.waiting or batch.running:
        assert len(batch.running) <= 4
        batch.step()
    assert sorted(batch.pool.free) == list(range(1, PAGES + 1))


def check(name: str, device: str, events: list[tuple[int, int, int | None]], tokens: int = LONGEST) -> None:
    """Let jobs come (a job, steps until the next, after how many tokens it is given up); compare all with solo runs."""
    batch, found = batch_of(name, device), []
    for job, steps, patience in events:
        found.append((job, submit(batch, job, max_new_tokens=tokens), patience))
        for _ in range(steps):
            batch.step()
            for _, request, most in found:
                if most is not None and len(request.tokens) >= most:
                    batch.cancel(request)
                    count = len(request.tokens)
                    batch.step()
                    assert len(request.tokens) == count and not request.pages
    finish(batch)
    for job, request, _ in found:
        assert request.tokens == alone(name, device, job, tokens)[: len(request.tokens)]
        assert request.finish_reason == "cancelled" or len(request.tokens) == tokens


EVENTS = st.lists(
    st.tuples(st.integers(0, len(JOBS) - 1), st.integers(0, 4), st.one_of(st.none(), st.integers(0, 6))),
    min_size=1, max_size=7,
)  # fmt: skip


@settings(max_examples=2, deadline=None, derandomize=True)
@given(EVENTS)
def test_arrivals(events: list[tuple[int, int, int | None]]) -> None:
    check("gpt2", "cpu", events)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(EVENTS, st.sampled_from(["llama", "gpt2", "gemma3", "phi3_long", "llama_dynamic"]))
def test_many_arrivals(events: list[tuple[int, int, int | None]], name: str) -> None:
    check(name, "cpu", events)


@pytest.mark.slow_on("phi3_long", "gpt2", "llama_dynamic", "mixtral", "qwen2_window", "gemma3", "gemma2")
@pytest.mark.parametrize("name", ["gemma2", "gpt2", "phi3_long", "llama_dynamic", "mixtral", "gemma3", "qwen2_window"])
def test_families(name: str) -> None:
    check(name, "cpu", [(1, 0, None), (0, 2, None), (3, 3, 5), (4, 1, None), (2, 0, None)])


@pytest.mark.slow
def test_on_a_gpu(device: str) -> None:
    if device == "cpu":
        pytest.skip("done above")
    check("llama", device, [(1, 0, None), (2, 2, None), (3, 3, 5), (4, 1, None), (0, 0, None), (2, 0, None)])


@pytest.mark.slow
def test_steps_are_captured_once_for_each_size() -> None:
    if torch.webgpu.device_count() == 0:
        pytest.skip("the host's steps are not captured")
    batch = batch_of("llama", "webgpu")
    for job in (2, 2, 0, 3, 3, 0):
        submit(batch, job)
        batch.step()
    finish(batch)
    for key, step in batch.steps._kept._found.items():
        assert step.statistics["recorded"] == 1, (key, step.statistics)  # type: ignore[attr-defined]


def test_texts_end_requests() -> None:
    wanted = alone("gpt2", "cpu", 0, LONGEST)
    batch = batch_of("gpt2", "cpu")
    by_text = submit(batch, 0, stop_strings=Letters().decode(wanted[3:5]))
    by_token = submit(batch, 0, eos_token_id=wanted[2])
    other = submit(batch, 3)
    finish(batch)
    first = next(index for index, each in enumerate(wanted) if each == wanted[2]) + 1
    assert (by_token.tokens, by_token.finish_reason) == (wanted[:first], "stop")
    assert by_text.finish_reason == "stop" and by_text.tokens == wanted[: len(by_text.tokens)]
    assert (other.tokens, other.finish_reason) == (alone("gpt2", "cpu", 3, LONGEST), "length")


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ([], {}, "at least one token"),
        ([5, 97], {}, "token 97 is none of the model's 97"),
        ([-1], {}, "token -1 is none"),
        ([1] * 60, {"max_new_tokens": 5}, "need 17 pages of the key-value cache, which has 16 of 4 tokens"),
        ([1], {"top_p": 2.0}, "top_p must be between 0 and 1, got 2.0"),
        ([1], {"num_beams": 2}, "num_beams=2: sequences of a running batch are not continued by beams"),
    ],
)
def test_a_bad_request_touches_no_other(prompt: list[int], options: dict[str, Any], message: str) -> None:
    batch = batch_of("gpt2", "cpu")
    request = submit(batch, 0, max_new_tokens=2)
    with pytest.raises(ValueError, match=message):
        batch.submit(prompt, **options)
    finish(batch)
    assert request.tokens == alone("gpt2", "cpu", 0, LONGEST)[:2]


def test_what_others_left_in_the_pages() -> None:
    """A sequence whose numbers overflowed leaves NaN behind, in its pages and where rows are filled up."""
    batch = batch_of("gpt2", "cpu")
    for buffer in batch.pool.buffers:
        buffer.fill_(float("nan"))
    requests = [submit(batch, job) for job in (2, 0, 3)]
    finish(batch)
    assert [each.tokens for each in requests] == [alone("gpt2", "cpu", job, LONGEST) for job in (2, 0, 3)]


@pytest.mark.slow
def test_an_overflow_ends_one_request(device: str) -> None:
    wanted = {job: alone("llama", device, job, LONGEST) for job in (0, 3)}
    weight = model_of("llama", device).model.embed_tokens.weight
    before = weight.detach()[90].clone()
    assert not any(90 in each for each in wanted.values())
    batch = batch_of("llama", device)
    try:
        with torch.no_grad():
            weight[90] = float("nan")
        found = {job: submit(batch, job) for job in (0, 2, 3)}
        finish(batch)
    finally:
        with torch.no_grad():
            weight[90] = before
    assert (found[2].tokens, found[2].finish_reason) == ([], "overflow")
    assert {job: found[job].tokens for job in wanted} == wanted


def test_options_beyond_all_numbers() -> None:
    """What cannot be drawn from ends its own request."""
    batch = batch_of("gpt2", "cpu")
    least = submit(batch, 2, temperature=1e-300)
    most = submit(batch, 2, top_k=10**30)
    other = submit(batch, 3)
    finish(batch)
    assert least.finish_reason == "overflow"
    assert most.tokens == alone("gpt2", "cpu", 2, LONGEST, 0)
    assert other.tokens == alone("gpt2", "cpu", 3, LONGEST)


def test_requests_wait_for_pages() -> None:
    batch = batch_of("gpt2", "cpu")
    first = [submit(batch, 1, max_new_tokens=9) for _ in range(2)]
    later = submit(batch, 1, max_new_tokens=2)
    batch.step()
    assert len(batch.running) == 2 and list(batch.waiting) == [later]
    batch.cancel(first[0])
    batch.step()
    assert later in batch.running and not first[0].pages
    batch.cancel(submit(batch, 0))
    finish(batch)
    assert first[1].tokens == alone("gpt2", "cpu", 1, LONGEST)[:9]
