"""Decoders compute and generate what transformers recorded, without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import reference_cases as cases
import webgpu_torch_core as torch
from recorded_models import load, outputs_of
from webgpu_torch.testing import assert_close
from webgpu_torch_core.files import load_safetensors, save_safetensors
from webgpu_torch_models import AutoModelForCausalLM
from webgpu_torch_models.config import write_json

#: on the GPU, one of each kind of attention, norm and position
ON_GPU = ("llama_3", "mistral", "qwen3", "gemma2", "gemma3", "phi3", "olmo2", "mixtral")


@pytest.mark.slow_on("cpu-gemma3")
@pytest.mark.slow_on(
    *(f"cpu-{name}" for name in cases.DECODERS if name not in ("llama_3", "qwen3", "gemma3", "mixtral"))
)
@pytest.mark.slow_on(*(f"webgpu-{name}" for name in cases.DECODERS if name not in ("llama_3", "qwen3")))
@pytest.mark.parametrize("name", cases.DECODERS)
def test_logits_and_text(name: str, tmp_path: Path, device: str) -> None:
    if device != "cpu" and name not in ON_GPU:
        pytest.skip("its parts run on the GPU in other cases")
    model, wanted = load(name, tmp_path, device), outputs_of(name)
    ids, mask = (each.to(device) for each in cases.tokens(torch))
    with torch.no_grad():
        logits = model(ids).logits.cpu()
        masked = model(ids, attention_mask=mask).logits.cpu()
    assert_close(logits, wanted["logits"], rtol=1e-4, atol=1e-4)
    assert_close(masked[0, 3:], wanted["masked_logits"][0, 3:], rtol=1e-4, atol=1e-4)
    assert_close(masked[1], wanted["masked_logits"][1], rtol=1e-4, atol=1e-4)
    text = model.generate(ids, attention_mask=mask, max_new_tokens=20)
    assert text.tolist() == wanted["generated"].tolist()


@pytest.mark.parametrize("name", ["llama", "mixtral", "qwen3_moe"])
def test_saved_folders_load_again(name: str, tmp_path: Path) -> None:
    model = load(name, tmp_path, "cpu")
    model.save_pretrained(tmp_path / "again")
    names = set(load_safetensors(tmp_path / "again" / "model.safetensors"))
    assert names == set(cases.description(name)["weights"])
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "again")
    for (key, left), (_, right) in zip(model.state_dict().items(), again.state_dict().items(), strict=True):
        assert torch.equal(left, right), key


def test_a_missing_expert_is_named(tmp_path: Path) -> None:
    recorded = cases.description("mixtral")
    write_json(tmp_path / "config.json", recorded["config"])
    drawn = cases.weights(torch, recorded["weights"])
    del drawn["model.layers.1.block_sparse_moe.experts.2.w3.weight"]
    save_safetensors(drawn, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"lacks w3 of expert 2 in model\.layers\.1"):
        AutoModelForCausalLM.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["gemma3", "qwen3_moe"])
def test_gradients_reach_every_weight(name: str, tmp_path: Path) -> None:
    model = load(name, tmp_path, "cpu")
    ids, _ = cases.tokens(torch)
    model(ids, labels=ids).loss.backward()
    assert [key for key, each in model.named_parameters() if each.grad is None] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_key_value_heads": 3}, "num_attention_heads=4 is no multiple of num_key_value_heads=3"),
        ({"layer_types": ["full_attention"]}, "layer_types has 1 entries for 3 layers"),
        ({"hidden_act": "gelo"}, 'the activation "gelo" is unknown'),
        ({"rope_parameters": {"rope_type": "spiral"}}, 'rope_type "spiral" is unknown'),
    ],
)
def test_configurations_that_make_no_sense(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {**cases.description("llama")["config"], **change})
    with pytest.raises(ValueError, match=message):
        AutoModelForCausalLM.from_pretrained(tmp_path)
