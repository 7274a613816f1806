"""What safetensors, accelerate and transformers are told about our devices: files, training devices and attention."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

INSTALL = "import webgpu_torch; webgpu_torch.install_as_torch(); import torch, sys\n"


def _devices() -> list[str]:
    from webgpu_torch_core.backend.plugins import registry

    registry.load()
    return [name for name in ("cpu", "webgpu") if name in registry.backends and registry.backends[name].device_count()]


@pytest.mark.parametrize("device", _devices())
def test_safetensors(device: str, run_code: Callable[..., str], tmp_path: Path) -> None:
    """``save_file``, ``load_file`` and ``safe_open`` with slices and metadata, on either device."""
    code = """
    import safetensors.torch as files
    from safetensors import safe_open
    path, device = sys.argv[1:]
    tensors = {
        "a": torch.arange(12.0, device=device).reshape(3, 4),
        "b": torch.tensor([1, -2], device=device),
        "c": torch.randn(3, 2, device=device).to(torch.bfloat16),
        "d": torch.tensor([True, False], device=device),
        "e": torch.zeros(0, 3, device=device),
        "f": torch.tensor(2.5, dtype=torch.float16, device=device),
    }
    files.save_file(tensors, path, metadata={"format": "pt"})
    found = files.load_file(path, device=device)
    assert set(found) == set(tensors)
    for name, value in tensors.items():
        assert found[name].device.type == device and found[name].dtype is value.dtype
        assert torch.equal(found[name], value), name
    with safe_open(path, framework="pt", device=device) as file:
        assert sorted(file.keys()) == sorted(tensors) and file.metadata() == {"format": "pt"}
        part = file.get_slice("a")
        assert part.get_shape() == [3, 4] and part.get_dtype() == "F32"
        assert part[1:, :2].tolist() == [[4.0, 5.0], [8.0, 9.0]] and part[1:].device.type == device
        assert torch.equal(file.get_tensor("c"), tensors["c"])
    again = files.load(files.save({"a": tensors["a"]}))
    assert torch.equal(again["a"], tensors["a"].cpu())
    model = torch.nn.Linear(4, 2).to(device)
    files.save_model(model, path)
    other = torch.nn.Linear(4, 2).to(device)
    files.load_model(other, path, device=device)
    assert torch.equal(other.weight, model.weight)
    shared = tensors["a"]
    try:
        files.save_file({"one": shared, "two": shared}, path)
    except RuntimeError as error:
        assert "share memory" in str(error)
    else:
        raise AssertionError("tied tensors were saved twice")
    """
    run_code(INSTALL + "\n".join(line[4:] for line in code.splitlines()), tmp_path / "x.safetensors", device)


ATTENTION = """
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM, BertConfig, BertModel
from transformers import T5Config, T5Model
from transformers.masking_utils import AttentionMaskInterface
assert "webgpu_torch" in AttentionInterface.valid_keys(AttentionInterface())
assert "webgpu_torch" in AttentionMaskInterface()._global_mapping
calls = []
import torch.nn.functional as F
plain = F.scaled_dot_product_attention
def counted(*args, **kwargs):
    calls.append((args[0].shape[1], args[1].shape[1], kwargs.get("enable_gqa", False)))
    return plain(*args, **kwargs)
F.scaled_dot_product_attention = counted
torch.manual_seed(0)
config = LlamaConfig(vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=2, max_position_embeddings=64)
model = LlamaForCausalLM(config).eval().to(sys.argv[1])
ids = torch.randint(3, 50, (2, 9)).to(sys.argv[1])
mask = torch.ones_like(ids)
mask[0, :4] = 0
found = {}
for name in ("eager", "sdpa", "webgpu_torch"):
    model.set_attn_implementation(name)
    assert model.config._attn_implementation == name
    calls.clear()
    found[name] = [
        model(ids).logits, model(ids, attention_mask=mask).logits * mask[..., None],
        model.generate(ids, attention_mask=mask, max_new_tokens=4, do_sample=False, pad_token_id=0),
    ]
    if name != "eager":
        assert calls, name
    if name == "webgpu_torch":
        assert all(call == (4, 2, True) for call in calls), set(calls)
    if name == "sdpa":
        assert (4, 2, True) in calls, set(calls)
for name in ("sdpa", "webgpu_torch"):
    for one, other in zip(found[name], found["eager"]):
        assert (one - other).abs().max() < 1e-4, name
bert = BertModel(BertConfig(vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                            num_attention_heads=4)).eval()
ids, mask = ids.cpu(), mask.cpu()
states = {}
for name in ("eager", "webgpu_torch"):
    bert.set_attn_implementation(name)
    states[name] = bert(ids, attention_mask=mask).last_hidden_state * mask[..., None]
assert (states["eager"] - states["webgpu_torch"]).abs().max() < 1e-4
"""


@pytest.mark.slow
@pytest.mark.parametrize("device", _devices())
def test_attention(device: str, run_code: Callable[..., str]) -> None:
    """Our attention and ``sdpa`` agree with ``eager``, padded or not, and never repeat the keys of grouped heads."""
    run_code(INSTALL + ATTENTION, device)


def test_training_device(run_code: Callable[..., str]) -> None:
    """accelerate trains where the drop-in prefers to, and on the CPU when told so."""
    code = """
import os
from accelerate import PartialState
assert PartialState(cpu=True).device.type == "cpu"
PartialState._reset_state()
assert PartialState().device.type == "webgpu"
PartialState._reset_state()
del os.environ["WEBGPU_TORCH_DEVICE"]
from webgpu_torch_drop_in.libraries import SOFTWARE_ADAPTERS, preferred_device
name = torch.webgpu.get_device_name().lower() if torch.webgpu.is_available() else "llvmpipe"
software = any(each in name for each in SOFTWARE_ADAPTERS)
assert PartialState().device.type == preferred_device() == ("cpu" if software else "webgpu")
"""
    if "webgpu" not in _devices():
        pytest.skip("no WebGPU device")
    run_code(INSTALL + code, WEBGPU_TORCH_DEVICE="webgpu")
