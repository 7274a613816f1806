"""Networks that read one sequence and write another compute and write what transformers recorded, without it."""

from __future__ import annotations

from pathlib import Path

import pytest
import reference_cases as cases
import webgpu_torch_core as torch
from recorded_models import load, outputs_of
from webgpu_torch.testing import assert_close
from webgpu_torch_models import AutoModelForSeq2SeqLM, AutoModelForSpeechSeq2Seq
from webgpu_torch_models.language import sinusoids
from webgpu_torch_models.t5 import T5EncoderModel


@pytest.mark.slow_on("webgpu-t5")
@pytest.mark.slow_on("webgpu")
@pytest.mark.parametrize("name", cases.SEQ2SEQ)
def test_logits_and_text(name: str, tmp_path: Path, device: str) -> None:
    model, wanted = load(name, tmp_path, device, AutoModelForSeq2SeqLM), outputs_of(name)
    ids, mask = (each.flip(1).to(device) for each in cases.tokens(torch))
    with torch.no_grad():
        found = model(ids, attention_mask=mask, decoder_input_ids=ids[:, :5])
    assert_close(found.encoder_last_hidden_state[1].cpu(), wanted["states"][1], rtol=1e-4, atol=1e-4)
    assert_close(found.logits.cpu(), wanted["logits"], rtol=1e-4, atol=1e-4)
    for compiled in (False, True):
        text = model.generate(ids, mask, max_new_tokens=12, compile=compiled)
        assert text.tolist() == wanted["generated"].tolist()


def test_the_encoder_alone(tmp_path: Path) -> None:
    model, wanted = load("t5", tmp_path, "cpu", T5EncoderModel), outputs_of("t5")
    ids, mask = (each.flip(1) for each in cases.tokens(torch))
    assert_close(model(ids, mask).last_hidden_state[1].detach(), wanted["states"][1], rtol=1e-4, atol=1e-4)


def test_training(tmp_path: Path) -> None:
    model = load("t5_gated", tmp_path, "cpu", AutoModelForSeq2SeqLM)
    ids, mask = (each.flip(1) for each in cases.tokens(torch))
    model(ids, attention_mask=mask, labels=ids[:, :6]).loss.backward()
    assert [key for key, each in model.named_parameters() if each.grad is None] == []
    with pytest.raises(ValueError, match="give decoder_input_ids or labels"):
        model(ids)


@pytest.mark.slow_on("webgpu")
def test_whisper(tmp_path: Path, device: str) -> None:
    model, wanted = load("whisper", tmp_path, device, AutoModelForSpeechSeq2Seq), outputs_of("whisper")
    ids, heard = cases.tokens(torch)[0].to(device), cases.features(torch).to(device)
    with torch.no_grad():
        found = model(heard, decoder_input_ids=ids[:, :5])
    assert_close(found.encoder_last_hidden_state.cpu(), wanted["states"], rtol=1e-4, atol=1e-4)
    assert_close(found.logits.cpu(), wanted["logits"], rtol=1e-4, atol=1e-4)
    for compiled in (False, True):
        text = model.generate(heard, max_new_tokens=12, eos_token_id=[], compile=compiled)
        assert text.tolist() == wanted["generated"].tolist()
    model(heard, labels=ids[:, :6]).loss.backward()
    assert [key for key, each in model.named_parameters() if each.requires_grad and each.grad is None] == []
    with pytest.raises(ValueError, match=r"input_features must be \[batch, 8, 40\], padded with silence"):
        model(heard[:, :, :39], decoder_input_ids=ids[:, :5])


def test_positions_of_sound() -> None:
    table = sinusoids(torch.arange(5), 8)
    assert table.shape == (5, 8)
    assert table[0].tolist() == [0.0] * 4 + [1.0] * 4
    assert abs(table[3, 0].item() - 0.14112) < 1e-5
