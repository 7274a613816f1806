"""Encoders of texts compute what transformers recorded, without it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import reference_cases as cases
import webgpu_torch_core as torch
import webgpu_torch_models as models
from recorded_models import folder_of, outputs_of
from webgpu_torch.testing import assert_close
from webgpu_torch_core.files import load_safetensors, save_safetensors
from webgpu_torch_models.bert import mean_pooling


def auto_class(name: str) -> Any:
    kind = cases.ENCODERS[name][0]
    return getattr(models, f"AutoModel{kind[kind.index('For') :] if 'For' in kind else ''}")


@pytest.mark.parametrize("name", cases.ENCODERS)
def test_outputs(name: str, tmp_path: Path, device: str) -> None:
    model = auto_class(name).from_pretrained(folder_of(name, tmp_path), device=device)
    wanted = outputs_of(name)
    ids, mask = (each.flip(1).to(device) for each in cases.tokens(torch))
    with torch.no_grad():
        found = model(ids, attention_mask=mask)
    for key, value in wanted.items():
        assert_close(getattr(found, key).cpu(), value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert"])
def test_checkpoints_with_a_head_load_without_it(name: str, tmp_path: Path) -> None:
    model = models.AutoModel
    if name != "distilbert":
        # The checkpoint of the masked model has no pooling layer.
        with pytest.raises(ValueError, match=r"missing in the checkpoint: pooler\.dense\.weight"):
            model.from_pretrained(folder_of(f"{name}_masked", tmp_path))
    loaded = model.from_pretrained(folder_of(f"{name}_classifier" if name == "bert" else "distilbert_masked", tmp_path))
    assert not any(key.startswith(("bert.", "distilbert.", "classifier")) for key in loaded.state_dict())


def test_a_new_head_is_drawn_and_said(tmp_path: Path) -> None:
    folder = folder_of("distilbert_masked", tmp_path)
    with pytest.warns(UserWarning, match=r"has no pre_classifier\.weight, .*classifier\.bias: drawn anew"):
        model = models.AutoModelForSequenceClassification.from_pretrained(folder)
    ids, mask = cases.tokens(torch)
    loss = model(ids, attention_mask=mask, labels=torch.tensor([0, 1])).loss
    loss.backward()
    assert all(each.grad is not None for each in model.parameters())


def test_old_names_of_norms(tmp_path: Path) -> None:
    folder = folder_of("bert_masked", tmp_path)
    weights = load_safetensors(folder / "model.safetensors")
    old = {key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
           for key, value in weights.items()}  # fmt: skip
    assert set(old) != set(weights)
    before = models.AutoModelForMaskedLM.from_pretrained(folder).state_dict()
    save_safetensors(old, folder / "model.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after = models.AutoModelForMaskedLM.from_pretrained(folder).state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_embeddings_of_texts_do_not_depend_on_padding(tmp_path: Path) -> None:
    model = models.AutoModel.from_pretrained(folder_of("bert", tmp_path))
    ids, mask = (each.flip(1) for each in cases.tokens(torch))
    both = mean_pooling(model(ids, attention_mask=mask).last_hidden_state, mask)
    alone = mean_pooling(model(ids[:1, :8]).last_hidden_state, mask[:1, :8])
    assert_close(both[:1], alone, rtol=1e-5, atol=1e-5)
    assert_close(both.norm(dim=1), torch.ones(2))


def test_errors(tmp_path: Path) -> None:
    folder = folder_of("roberta", tmp_path)
    with pytest.raises(ValueError, match="Roberta has no model ForCausalLM; it has: Model, ForMaskedLM, "):
        models.AutoModelForCausalLM.from_pretrained(folder)
    model = models.AutoModel.from_pretrained(folder)
    with pytest.raises(ValueError, match="27 positions are more than the model's max_position_embeddings=24"):
        model(torch.full((1, 25), 5))
