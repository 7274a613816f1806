"""GPT-2 at its real size (124M, random weights): logits and greedy tokens equal transformers'."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from models_oracle import to_ours, to_torch
from webgpu_torch_models import AutoModelForCausalLM
from webgpu_torch_models.generation import generate


@pytest.mark.slow
def test_full_size(tmp_path: Path, device: str) -> None:
    torch.manual_seed(0)
    expected = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    expected.save_pretrained(tmp_path)
    prompt = torch.randint(0, 50257, (1, 16))
    actual = AutoModelForCausalLM.from_pretrained(tmp_path, device=device)
    with torch.no_grad():
        right = expected(prompt).logits
        tokens = expected.generate(prompt, max_new_tokens=32, do_sample=False, pad_token_id=0, eos_token_id=None)
    left = to_torch(actual(to_ours(prompt, device)).logits)
    torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-4)
    found = generate(actual, to_ours(prompt, device), max_new_tokens=32, do_sample=False, eos_token_id=None)
    assert to_torch(found).tolist() == tokens.tolist()
