"""Every way to choose tokens gives those that transformers recorded; endings, streams and captures change none of them."""

from __future__ import annotations

import copy
import gc
import warnings
import weakref
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import reference_cases as cases
import webgpu_torch_core as torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recorded_models import load, outputs_of
from webgpu_torch_core.files import load_safetensors
from webgpu_torch_models import AutoModelForCausalLM, AutoModelForSeq2SeqLM
from webgpu_torch_models.generation import GenerationConfig, decoding
from webgpu_torch_models.generation.endings import Endings
from webgpu_torch_models.generation.kept import steps_of
from webgpu_torch_models.generation.rules import Past, Rules
from webgpu_torch_models.gpt2 import GPT2Config, GPT2LMHeadModel
from webgpu_torch_models.pipelines.segments import segments_of

WANTED = load_safetensors(cases.FOLDER / "generations.safetensors")


def begun(name: str, folder: Path, device: str) -> tuple[Any, Any, Any]:
    """Return a case's model, tokens and mask."""
    model_name = cases.GENERATIONS[name][0] if name in cases.GENERATIONS else name
    seq2seq = model_name in cases.SEQ2SEQ
    model = load(model_name, folder, device, AutoModelForSeq2SeqLM if seq2seq else AutoModelForCausalLM)
    ids, mask = (each.flip(1) if seq2seq else each for each in cases.tokens(torch))
    return model, ids.to(device), mask.to(device)


#: what other cases have parts of
SLOW = (
    "beams",
    "beams_never",
    "beams_drawn",
    "drawn",
    "penalty",
    "beams_words",
    "beams_forced",
    "least",
    "repeated_once",
)


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.slow if each in SLOW else ()) for each in cases.GENERATIONS]
)
def test_tokens_are_those_of_transformers(name: str, tmp_path: Path, device: str) -> None:
    options = cases.GENERATIONS[name][1]
    if device != "cpu" and name not in ("beams_penalty", "repeated", "words", "forced"):
        pytest.skip("a GPU draws other numbers; the other kinds differ on the host only")
    model, ids, mask = begun(name, tmp_path, device)
    torch.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.generate(ids, attention_mask=mask, max_new_tokens=20, **options)
    assert found.tolist() == WANTED[name].tolist()


def test_rules_of_times(device: str) -> None:
    """After texts of every length just those tokens are left that transformers leaves, and texts are cut where it cuts them."""
    wanted, texts = load_safetensors(cases.FOLDER / "times.safetensors"), cases.timed_texts(torch)
    config = GenerationConfig(return_timestamps=True, **cases.TIMED)
    rules = Rules.of([config], [1], 97, torch.device(device))
    scores = torch.randn((texts.shape[1], len(texts), 97), generator=torch.Generator().manual_seed(4)) * 1.5
    past = Past(None, texts.to(device))
    for length in range(1, texts.shape[1] + 1):
        each = rules.apply(scores[length - 1].to(device), past, torch.tensor([[length]], device=device))
        assert (each.cpu() > -float("inf")).tolist() == wanted["left"][length - 1].bool().tolist(), length
    for text, recorded in zip(texts[:, 1:].tolist(), wanted["segments"].tolist(), strict=True):
        segments, heard = segments_of(text, 61, 50)
        bounds = [bound for each in segments for bound in (each.start, each.end)]
        if text[0] >= 61:
            # A text begins with a time.
            assert [heard, len(segments), *bounds] == recorded[: 2 + len(bounds)]


class Letters:
    """A tokenizer whose tokens are letters."""

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(200 + each) for each in ids)


def test_texts_end_sequences(tmp_path: Path, device: str) -> None:
    model, ids, mask = begun("llama", tmp_path, device)
    plain = model.generate(ids, attention_mask=mask, max_new_tokens=20)[:, ids.shape[1] :].tolist()
    stop = Letters().decode(plain[1][6:8])
    options: dict[str, Any] = {"stop_strings": stop, "tokenizer": Letters(), "max_new_tokens": 20, "pad_token_id": 3}
    found = model.generate(ids, attention_mask=mask, **options)[:, ids.shape[1] :].tolist()
    wanted = []
    for row in plain:
        end = Letters().decode(row).find(stop)
        wanted.append(row if end < 0 else [*row[: end + 2], *[3] * (18 - end)])
    assert found == [row[: len(found[0])] for row in wanted]
    assert found != plain
    streamed = list(model.stream(ids, attention_mask=mask, **options))
    assert [list(each) for each in zip(*streamed, strict=True)] == found
    with pytest.raises(ValueError, match="give the tokenizer"):
        model.generate(ids, stop_strings=["end"])
    model.generation_config.pad_token_id = None
    with pytest.raises(ValueError, match="need pad_token_id"):
        model.generate(ids, stop_strings=["end"], tokenizer=Letters())
    assert not Endings(model.generation_config)


def test_streams_leave_gradients_as_they_are(tmp_path: Path) -> None:
    model, ids, mask = begun("llama", tmp_path, "cpu")
    seen = []
    for values in model.stream(ids, attention_mask=mask, max_new_tokens=5):
        assert torch.is_grad_enabled()
        seen.append(values)
    assert [list(each) for each in zip(*seen, strict=True)] == outputs_of("llama")["generated"][:, 11:16].tolist()


def test_captured_draws(device: str, tmp_path: Path) -> None:
    """A captured step draws what an uncaptured one does, from its generator; another seed gives another text."""
    model, ids, mask = begun("llama", tmp_path, device)
    options = {
        "attention_mask": mask,
        "do_sample": True,
        "max_new_tokens": 12,
        "repetition_penalty": 1.2,
        "min_p": 0.01,
    }

    def drawn(seed: int, compile: bool) -> Any:
        generator = torch.Generator(device).manual_seed(seed)
        return model.generate(ids, generator=generator, compile=compile, **options).tolist()

    found = drawn(1, True)
    assert found == drawn(1, False) == drawn(1, True)
    assert found != drawn(2, True)


@pytest.mark.slow_on("likeliest")
@pytest.mark.parametrize("options", [{}, {"do_sample": True, "repetition_penalty": 1.3}], ids=["likeliest", "drawn"])
def test_steps_are_replayed_for_the_next_text(options: dict[str, Any], tmp_path: Path) -> None:
    if torch.webgpu.device_count() == 0:
        pytest.skip("the host's steps are not captured")
    model, ids, _ = begun("llama", tmp_path, "webgpu")
    # Of 11 to 12 tokens, in one bucket.
    for text in (ids, ids.flip(1), torch.cat([ids, ids[:, :1]], dim=1)):
        found = [
            model.generate(
                text, max_new_tokens=6, generator=torch.Generator("webgpu").manual_seed(3), compile=compile, **options
            ).tolist()
            for compile in (True, False)
        ]
        assert found[0] == found[1]
    counts = [each.statistics for each in steps_of(model)]
    assert len(counts) == 2
    assert sum(each["replayed"] for each in counts) >= 12, counts
    assert sum(each["recorded"] for each in counts) <= 4, counts


@st.composite
def texts(draw: st.DrawFn) -> tuple[int, int, bool, dict[str, Any]]:
    """Return how many tokens a prompt has, how many follow, whether there is padding, and how they are chosen."""
    options: dict[str, Any] = draw(
        st.sampled_from(
            [
                {},
                {"num_beams": 2},
                {"repetition_penalty": 1.4},
                {"no_repeat_ngram_size": 2},
                {"bad_words_ids": [[3], [4, 5]]},
                {"min_new_tokens": 3, "eos_token_id": list(range(40))},
                {"do_sample": True, "top_k": 5},
                {"do_sample": True, "temperature": 0.5, "top_p": 0.9},
            ]
        )
    )
    return draw(st.integers(1, 40)), draw(st.integers(1, 4)), draw(st.booleans()), options


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2"])
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given=st.lists(texts(), min_size=2, max_size=4))
def test_texts_one_after_the_other_are_those_of_new_models(
    name: str, given: list[tuple[int, int, bool, dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory, device: str
) -> None:
    """What is kept of a text (steps, lengths that prompts are filled up to) changes nothing of the next one."""
    if name == "gpt2":
        # With learned positions, no more of them than the longest text has.
        torch.manual_seed(1)
        config = GPT2Config(vocab_size=97, n_positions=44, n_embd=32, n_layer=2, n_head=2, initializer_range=0.4)
        model = GPT2LMHeadModel(config).to(device).eval()
    else:
        model = begun(name, tmp_path_factory.mktemp("model"), device)[0]
    for tokens, count, padded, options in given:
        torch.manual_seed(tokens)
        ids = torch.randint(5, 90, (2, tokens)).to(device)
        mask = torch.ones_like(ids)
        if padded:
            mask[1, : tokens // 2] = 0
        wanted = plainly(model, ids, mask, count, options)
        generator = torch.Generator(device).manual_seed(tokens)
        found = model.generate(ids, attention_mask=mask, max_new_tokens=count, generator=generator, **options)
        assert found.tolist() == wanted, (tokens, count, padded, options)


def plainly(model: Any, ids: Any, mask: Any, count: int, options: dict[str, Any]) -> list[list[int]]:
    """Return what is generated where prompts are not filled up and nothing is captured or kept."""
    other = copy.deepcopy(model)
    generator = torch.Generator(ids.device).manual_seed(ids.shape[1])
    with mock.patch.object(decoding, "bucket_of", lambda length: length):
        found = other.generate(
            ids, attention_mask=mask, max_new_tokens=count, generator=generator, compile=False, **options
        )
    return found.tolist()


def test_a_model_that_generated_goes_when_nobody_holds_it(tmp_path: Path, device: str) -> None:
    model, ids, _ = begun("llama", tmp_path, device)
    for _ in range(3):
        model.generate(ids, max_new_tokens=3)
    gone = weakref.ref(model), weakref.ref(next(model.parameters()))
    gc.disable()
    try:
        del model
        assert [each() for each in gone] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_p": 1.5}, "min_p must be between 0 and 1, got 1.5"),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be greater than 0, got 0.0"),
        ({"num_beams": 0}, "num_beams must be at least 1, got 0"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size must be 0 or positive, got -1"),
        ({"bad_words_ids": [[3], []]}, "bad_words_ids must be a list of lists of tokens, none of them empty"),
        ({"bad_words_ids": [[3, 97]]}, "bad_words_ids has the token 97, which is none of the model's 97"),
        ({"forced_eos_token_id": 100}, "forced_eos_token_id has the token 100, which is none of the model's 97"),
        ({"return_timestamps": True}, "return_timestamps needs no_timestamps_token_id"),
        ({"early_stopping": "always"}, 'early_stopping must be True, False or "never"'),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    model, ids, _ = begun("llama", tmp_path, "cpu")
    with pytest.raises(ValueError, match=message):
        model.generate(ids, **options)
    with pytest.raises(TypeError, match="generation has no option temprature"):
        model.generate(ids, temprature=0.5)
    with pytest.raises(ValueError, match="num_beams=2 gives no tokens before its end"):
        model.stream(ids, num_beams=2)
