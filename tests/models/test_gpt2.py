"""GPT-2 computes, learns and generates what transformers' GPT-2 does, from the same folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import webgpu_torch_core as ours
from hypothesis import given
from hypothesis import strategies as st
from models_oracle import gpt2, to_ours, to_torch
from webgpu_torch_models import AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel
from webgpu_torch_models.cache import bucket_of, window_of
from webgpu_torch_nn import optim


@pytest.fixture
def prompt() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randint(0, 97, (2, 9))


def test_logits_and_loss(tmp_path: Path, prompt: torch.Tensor, device: str) -> None:
    expected = gpt2(tmp_path)
    actual = AutoModelForCausalLM.from_pretrained(tmp_path, device=device)
    assert actual.device.type == device
    labels = prompt.clone()
    labels[0, 3] = -100
    left = actual(to_ours(prompt, device), labels=to_ours(labels, device))
    right = expected(prompt, labels=labels)
    torch.testing.assert_close(to_torch(left.logits), right.logits.detach(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(to_torch(left.loss), right.loss.detach(), rtol=1e-5, atol=1e-5)
    kept = actual(to_ours(prompt, device), logits_to_keep=1).logits
    torch.testing.assert_close(to_torch(kept), right.logits[:, -1:].detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [{"activation_function": "relu"}, {"scale_attn_by_inverse_layer_idx": True}, {"n_inner": 40}],
    ids=lambda options: next(iter(options)),
)
def test_options(tmp_path: Path, prompt: torch.Tensor, options: dict) -> None:
    expected = gpt2(tmp_path, **options)
    actual = AutoModelForCausalLM.from_pretrained(tmp_path)
    torch.testing.assert_close(
        to_torch(actual(to_ours(prompt)).logits), expected(prompt).logits.detach(), rtol=1e-4, atol=1e-4
    )


@pytest.mark.slow_on("webgpu")
def test_padding_mask(tmp_path: Path, prompt: torch.Tensor, device: str) -> None:
    expected = gpt2(tmp_path)
    actual = AutoModelForCausalLM.from_pretrained(tmp_path, device=device)
    mask = torch.ones_like(prompt)
    mask[0, :4] = 0
    left = to_torch(actual(to_ours(prompt, device), attention_mask=to_ours(mask, device)).logits)
    right = expected(prompt, attention_mask=mask).logits.detach()
    torch.testing.assert_close(left[0, 4:], right[0, 4:], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(left[1], right[1], rtol=1e-4, atol=1e-4)


def test_gradients_and_five_steps_of_adamw(tmp_path: Path, prompt: torch.Tensor, device: str) -> None:
    expected = gpt2(tmp_path)
    actual = AutoModelForCausalLM.from_pretrained(tmp_path, device=device)
    left = optim.AdamW(actual.parameters(), lr=1e-3, weight_decay=0.1)
    right = torch.optim.AdamW(expected.parameters(), lr=1e-3, weight_decay=0.1)
    names = [name for name, _ in expected.named_parameters()]
    assert [name for name, _ in actual.named_parameters()] == names
    ids = to_ours(prompt, device)
    for step in range(5):
        left.zero_grad()
        right.zero_grad()
        loss, wanted = actual(ids, labels=ids).loss, expected(prompt, labels=prompt).loss
        loss.backward()
        wanted.backward()
        torch.testing.assert_close(to_torch(loss), wanted.detach(), rtol=1e-4, atol=1e-4)
        if step == 0:
            for name, a, b in zip(names, actual.parameters(), expected.parameters(), strict=True):
                torch.testing.assert_close(to_torch(a.grad), b.grad, rtol=1e-3, atol=2e-5, msg=lambda m, n=name: n + m)
        left.step()
        right.step()
    # Adam divides by the gradient's size: where it is near zero, rounding decides the direction of a step.
    for name, a, b in zip(names, actual.parameters(), expected.parameters(), strict=True):
        off = (to_torch(a) - b.detach()).abs()
        if name.endswith("c_attn.bias"):
            # A bias of the keys moves all scores of a row alike, so its gradient is nothing but rounding.
            off[32:64] = 0
        assert off.mean() < 1e-5, name
        assert off.max() < 1e-2, name


def test_greedy_generation(tmp_path: Path, prompt: torch.Tensor, device: str) -> None:
    expected = gpt2(tmp_path)
    actual = AutoModelForCausalLM.from_pretrained(tmp_path, device=device)
    right = expected.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=32, do_sample=False, pad_token_id=0
    )
    left = actual.generate(to_ours(prompt, device), max_new_tokens=32)
    seen = list(actual.stream(to_ours(prompt, device), max_new_tokens=32))
    assert left.tolist() == right.tolist()
    assert torch.tensor(seen).T.tolist() == right[:, 9:].tolist()


def test_the_window_of_the_cache_grows(tmp_path: Path, device: str) -> None:
    gpt2(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, device=device)
    ids = ours.arange(97).repeat(2)[:126].unsqueeze(0).to(device)
    with ours.no_grad():
        made = model.generate(ids, max_new_tokens=6)
        again = model(made[:, :-1]).logits[:, 125:].argmax(-1)
    assert made[:, 126:].tolist() == again.tolist()


@given(length=st.integers(1, 1 << 17))
def test_windows_and_lengths_of_prompts_are_few(length: int) -> None:
    """Each is a step to capture: sequences grow through few of them, and have room in each."""
    window, bucket = window_of(length), bucket_of(length)
    assert length <= window <= max(128, 2 * length)
    assert length <= bucket <= length + length // 4
    assert bucket <= window
    assert length <= 512 or window <= 1.5 * length + 1
    assert len({window_of(each) for each in range(1, length, max(1, length // 4096))}) <= 2 * length.bit_length()
    assert window_of(window) == window
    assert len({bucket_of(each) for each in range(1, length, max(1, length // 4096))}) <= 8 + 4 * length.bit_length()
    assert bucket_of(bucket) == bucket


def test_generation_with_padding(tmp_path: Path, prompt: torch.Tensor, device: str) -> None:
    gpt2(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, device=device)
    mask = torch.ones_like(prompt)
    mask[0, :4] = 0
    both = model.generate(to_ours(prompt, device), attention_mask=to_ours(mask, device), max_new_tokens=12)
    alone = model.generate(to_ours(prompt[:1, 4:], device), max_new_tokens=12)
    assert both.tolist()[0][9:] == alone.tolist()[0][5:]
    with pytest.raises(ValueError, match="pad prompts on the left"):
        model.generate(to_ours(prompt, device), attention_mask=to_ours(mask.flip(1), device), max_new_tokens=2)


@pytest.mark.parametrize(
    "options",
    [{"temperature": 0.7, "top_k": 10}, {"top_k": 0, "top_p": 0.6}, {"temperature": 1.3, "top_k": 20, "top_p": 0.9}],
    ids=str,
)
def test_sampling_scores_are_those_of_transformers(options: dict, device: str) -> None:
    from webgpu_torch_models.generation import GenerationConfig
    from webgpu_torch_models.generation.scores import process_scores

    torch.manual_seed(2)
    scores = torch.randn(3, 50) * 4
    processors = transformers.LogitsProcessorList()
    if "temperature" in options:
        processors.append(transformers.TemperatureLogitsWarper(options["temperature"]))
    if options["top_k"]:
        processors.append(transformers.TopKLogitsWarper(options["top_k"]))
    if "top_p" in options:
        processors.append(transformers.TopPLogitsWarper(options["top_p"]))
    expected = processors(torch.zeros(3, 1, dtype=torch.int64), scores)
    actual = to_torch(process_scores(to_ours(scores, device), GenerationConfig(do_sample=True, **options).sampling))
    torch.testing.assert_close(actual, expected)


def test_sampling_draws_as_transformers(tmp_path: Path, prompt: torch.Tensor) -> None:
    expected = gpt2(tmp_path)
    actual = AutoModelForCausalLM.from_pretrained(tmp_path)
    options = {"max_new_tokens": 20, "do_sample": True, "temperature": 1.2, "top_k": 30, "top_p": 0.95}
    torch.manual_seed(5)
    right = expected.generate(prompt, attention_mask=torch.ones_like(prompt), pad_token_id=0, **options)
    ours.manual_seed(5)
    assert actual.generate(to_ours(prompt), **options).tolist() == right.tolist()


def test_sequences_end(tmp_path: Path, prompt: torch.Tensor) -> None:
    expected = gpt2(tmp_path)
    actual = AutoModelForCausalLM.from_pretrained(tmp_path)
    plain = actual.generate(to_ours(prompt), max_new_tokens=20).tolist()
    ends = [plain[0][14], plain[1][17]]
    right = expected.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=20, do_sample=False, eos_token_id=ends
    )
    left = actual.generate(to_ours(prompt), max_new_tokens=20, eos_token_id=ends)
    assert left.tolist() == right.tolist()
    assert left.shape[1] < 29


def test_generation_errors(tmp_path: Path, prompt: torch.Tensor) -> None:
    gpt2(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    ids = to_ours(prompt)
    for options, message in (
        ({"max_new_tokens": 400}, "n_positions=320"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1, got 0"),
        ({"temperature": 0.0}, "temperature must be greater than 0, got 0.0"),
        ({"top_p": 1.5}, "top_p must be between 0 and 1, got 1.5"),
        ({"top_k": -1}, "top_k must be 0"),
    ):
        with pytest.raises(ValueError, match=message):
            model.generate(ids, **options)
    cache = model.new_cache(2, 10)
    model(ids, cache=cache)
    with pytest.raises(ValueError, match="holds 9 of at most 10 tokens; 9 more do not fit"):
        model(ids, cache=cache)


def test_saving_for_transformers(tmp_path: Path, prompt: torch.Tensor) -> None:
    expected = gpt2(tmp_path / "theirs")
    actual = AutoModelForCausalLM.from_pretrained(tmp_path / "theirs")
    for size in ("5GB", "20KB"):
        folder = tmp_path / size
        actual.save_pretrained(folder, max_shard_size=size)
        assert (folder / "model.safetensors.index.json").is_file() == (size == "20KB")
        for model in (
            transformers.GPT2LMHeadModel.from_pretrained(folder),
            AutoModelForCausalLM.from_pretrained(folder),
        ):
            ids = prompt if isinstance(model, torch.nn.Module) else to_ours(prompt)
            logits = model(ids).logits.detach()
            logits = logits if isinstance(logits, torch.Tensor) else to_torch(logits)
            torch.testing.assert_close(logits, expected(prompt).logits.detach(), rtol=1e-4, atol=1e-4)
    saved = json.loads((tmp_path / "5GB" / "config.json").read_text())
    assert saved["architectures"] == ["GPT2LMHeadModel"]
    assert saved["model_type"] == "gpt2"


def test_older_folders(tmp_path: Path, prompt: torch.Tensor) -> None:
    expected = gpt2(tmp_path)
    weights = {
        key.removeprefix("transformer."): value.clone()
        for key, value in expected.state_dict().items()
        if key != "lm_head.weight"
    }
    weights["h.0.attn.bias"] = torch.ones(1, 1, 320, 320)
    (tmp_path / "model.safetensors").unlink()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    actual = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert actual.lm_head.weight is actual.transformer.wte.weight
    torch.testing.assert_close(
        to_torch(actual(to_ours(prompt)).logits), expected(prompt).logits.detach(), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_files(tmp_path: Path, prompt: torch.Tensor, name: str) -> None:
    expected = gpt2(tmp_path).to(getattr(torch, name))
    expected.save_pretrained(tmp_path)
    actual = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert actual.dtype == getattr(ours, name)
    wide = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=ours.float32)
    torch.testing.assert_close(
        to_torch(wide(to_ours(prompt)).logits), expected.float()(prompt).logits.detach(), rtol=1e-4, atol=1e-4
    )


def test_folder_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def problem(name: Any, kind: type[Exception]) -> str:
        with pytest.raises(kind) as caught:
            AutoModelForCausalLM.from_pretrained(name)
        return str(caught.value)

    assert "there is no folder /no/such/place" in problem("/no/such/place", FileNotFoundError)
    assert "is not a Hugging Face model folder" in problem(tmp_path, FileNotFoundError)
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "mystery"}')
    message = problem(tmp_path, ValueError)
    assert "model_type is 'mystery'; supported are: " in message and "gpt2" in message
    gpt2(tmp_path)
    config.write_text(json.dumps({**json.loads(config.read_text()), "n_inner": 40, "n_layer": 3}))
    message = problem(tmp_path, ValueError)
    assert "transformer.h.0.mlp.c_fc.weight: the checkpoint has [32, 128], the model [32, 40]" in message
    assert "missing in the checkpoint: transformer.h.2.ln_1.weight" in message
    (tmp_path / "model.safetensors").unlink()
    assert "has no weights" in problem(tmp_path, FileNotFoundError)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-1.safetensors"}}')
    assert "lacks model-1.safetensors" in problem(tmp_path, FileNotFoundError)


def test_configuration(tmp_path: Path) -> None:
    gpt2(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    assert isinstance(config, GPT2Config)
    assert (config.n_embd, config.extra["n_ctx"] if "n_ctx" in config.extra else 32) == (32, 32)
    values = {"model_type": "gpt2", "summary_type": "cls_index", "n_embd": 48}
    again = GPT2Config.from_dict(values).to_dict()
    assert values.items() <= again.items()
    with pytest.raises(ValueError, match="n_embd=10 is no multiple of n_head=3"):
        GPT2Config(n_embd=10, n_head=3)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=11, n_positions=8, n_embd=8, n_layer=1, n_head=2))
    assert model.num_parameters() == 11 * 8 + 8 * 8 + (12 * 64 + 13 * 8) + 16
