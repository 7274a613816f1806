"""Weights of a few bits, GGUF files and adapters: close to the plain model, bit for bit what the formats say, never half-loaded."""

from __future__ import annotations

import json
import math
import random
import struct
from pathlib import Path
from typing import Any

import pytest
import reference_cases as cases
import webgpu_torch_core as torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_models import folder_of, load, outputs_of
from webgpu_torch.testing import assert_close
from webgpu_torch_core.files import load_safetensors, save_safetensors
from webgpu_torch_core.ir.encodings import ENCODINGS
from webgpu_torch_core.operations.contraction.encoded_weights import decode_weight
from webgpu_torch_models import AutoModelForCausalLM
from webgpu_torch_models.config import write_json
from webgpu_torch_models.gguf import GGUFError, Stored, decode, read_gguf
from webgpu_torch_models.gguf_models import load_gguf
from webgpu_torch_models.linear import QUANTIZATIONS, EncodedLinear, encode_linears
from webgpu_torch_models.registry import architecture


def cosine(one: Any, other: Any) -> float:
    one, other = one.cpu().double().flatten(), other.cpu().double().flatten()
    return (one @ other / (one.norm() * other.norm())).item()


@pytest.mark.parametrize("name", QUANTIZATIONS)
def test_encoded_weights(name: str, tmp_path: Path, device: str) -> None:
    """Logits are those of the plain model with the numbers that the encoding has in place of its weights."""
    if device != "cpu" and name != "int4":
        pytest.skip("each encoding's product is tested with the operations")
    ids = cases.tokens(torch)[0].to(device)
    plain = load("llama", tmp_path, device)
    encoded = AutoModelForCausalLM.from_pretrained(tmp_path, device=device, quantize=name)
    maps = {key: each for key, each in encoded.named_modules() if isinstance(each, EncodedLinear)}
    meant = QUANTIZATIONS[name]
    assert len(maps) == (2 * 7 if not meant.ends else 3 * 7 + 1)
    with torch.no_grad():
        before = plain(ids).logits
        for key, each in maps.items():
            weight = plain.get_parameter(f"{key}.weight")
            assert each.packed.device.type == device
            assert f"{key}.weight" not in encoded.state_dict()
            is_finer = bool(meant.added) and (
                ".0." in key or key.endswith(("q_proj", "k_proj", "v_proj", "o_proj", "lm_head"))
            )
            own = QUANTIZATIONS["int8"] if is_finer else meant
            assert each.encoding == own.encoding
            groups = weight.shape[1] // math.gcd(weight.shape[1], own.group or weight.shape[1])
            bits = weight.numel() * ENCODINGS[own.encoding].bits + (16 + 8 * own.zero_point) * weight.shape[0] * groups
            parts = [part for part in (each.packed, each.scales, each.offsets) if part is not None]
            assert 8 * sum(part.nbytes for part in parts) == bits
            decoded = decode_weight(each.packed, each.scales, each.encoding, offsets=each.offsets)
            assert cosine(decoded, weight) >= (0.999 if ENCODINGS[each.encoding].bits == 8 else 0.996)
            weight.copy_(decoded)
        assert_close(encoded(ids).logits, plain(ids).logits, rtol=1e-4, atol=1e-4)
        assert cosine(encoded(ids).logits, before) >= {"int8": 0.999, "int4": 0.98}.get(name, 0.97)
    with pytest.raises(ValueError, match=f"{len(maps)} weights are encoded"):
        encoded.save_pretrained(tmp_path / "again")


@pytest.mark.parametrize("case", cases.DECODERS)
def test_logits_of_a_few_bits(case: str, tmp_path: Path) -> None:
    """What is promised of every family holds for drawn weights, which have no structure to spare."""
    folder_of(case, tmp_path)
    ids = cases.tokens(torch)[0]
    with torch.no_grad():
        wanted = AutoModelForCausalLM.from_pretrained(tmp_path)(ids).logits
        for name, least in (("int8", 0.999), ("int4", 0.98)):
            assert cosine(AutoModelForCausalLM.from_pretrained(tmp_path, quantize=name)(ids).logits, wanted) >= least


def heavy(kind: str, shape: tuple[int, ...], generator: Any) -> Any:
    """Return weights of deviation one over the root of the columns but for those far out."""
    drawn = torch.randn(shape, generator=generator)
    if kind == "tails":
        # Student's t of four degrees of freedom.
        parts = torch.randn((4, *shape), generator=generator)
        drawn = drawn / (parts * parts).mean(0).sqrt() * 0.5**0.5
    if kind == "columns":
        drawn = torch.where(torch.rand(shape[-1], generator=generator) < 0.01, 8.0 * drawn, drawn)
    return drawn * shape[-1] ** -0.5


@given(
    st.sampled_from(["normal", "tails", "columns"]), st.sampled_from(["llama", "qwen3", "gemma2", "olmo2"]),
    st.sampled_from([1, 2, 6]), st.booleans(), st.integers(0, 1000),
)  # fmt: skip
@pytest.mark.slow
@settings(max_examples=6, deadline=None)
def test_logits_of_weights_that_lie_far_out(kind: str, family: str, layers: int, is_tied: bool, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    sizes = {
        "vocab_size": 256, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": layers, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 32, "tie_word_embeddings": is_tied,
    }  # fmt: skip
    found = architecture(family, Path())
    config = found.config_class().from_dict(sizes)
    ids = torch.randint(0, 256, (2, 12), generator=generator)
    with torch.no_grad():
        model = AutoModelForCausalLM.from_config(config).eval()
        for key, each in model.named_parameters():
            if each.ndim > 1:
                each.copy_(heavy(kind, tuple(each.shape), generator) * (0.2 if "embed" in key else 1.0))
        weights, wanted = dict(model.state_dict()), model(ids).logits
        for name, least in (
            (("int8", 0.998), ("int4", 0.97)) if kind == "columns" else (("int8", 0.999), ("int4", 0.98))
        ):
            model = AutoModelForCausalLM.from_config(config).eval()
            model.load_state_dict(weights)
            rest = (
                dict(weights) if not is_tied else {key: each for key, each in weights.items() if "lm_head" not in key}
            )
            encode_linears(model, rest, name, torch.device("cpu"), model.active_ties())
            assert cosine(model(ids).logits, wanted) >= least, name


def test_generation_with_encoded_weights(tmp_path: Path) -> None:
    ids = cases.tokens(torch)[0]
    model = AutoModelForCausalLM.from_pretrained(folder_of("llama", tmp_path), quantize="nf4")
    text = model.generate(ids, max_new_tokens=4)
    with torch.no_grad():
        assert model(text[:, :-1]).logits[:, 10:].argmax(-1).tolist() == text[:, 11:].tolist()
    with pytest.raises(ValueError, match='quantize="int5" is unknown; known are: int8, int4, nf4, fp8'):
        AutoModelForCausalLM.from_pretrained(tmp_path, quantize="int5")


# Checkpoints of GPTQ and AWQ


def packed(rows: list[list[int]], bits: int, order: tuple[int, ...] | None = None) -> Any:
    """Return integers as int32 words along each row, one by one as the formats describe it."""
    lanes = 32 // bits
    places = order or tuple(range(lanes))
    words = [
        [sum(row[at + places[lane]] << (bits * lane) for lane in range(lanes)) for at in range(0, len(row), lanes)]
        for row in rows
    ]
    signed = [[word - (1 << 32) if word >> 31 else word for word in row] for row in words]
    return torch.tensor(signed, dtype=torch.int32)


def quantized_checkpoint(
    folder: Path, method: str, bits: int = 4, act_order: bool = False, version: int = 1
) -> dict[str, Any]:
    """Write "llama" with its linear maps drawn anew in a few bits; return them as they are meant."""
    draws = random.Random(5)
    folder_of("llama", folder)
    config = cases.description("llama")["config"]
    weights = cases.weights(torch, cases.description("llama")["weights"], 1.5)
    meant = {}
    for key in [name for name in weights if name.endswith("_proj.weight")]:
        outputs, inputs = weights.pop(key).shape
        groups = inputs // 16
        numbers = [[draws.randrange(1 << bits) for _ in range(inputs)] for _ in range(outputs)]
        zeros = [[draws.randrange(1, 1 << bits) for _ in range(outputs)] for _ in range(groups)]
        scales = torch.tensor(
            [[draws.uniform(0.01, 0.03) * 16 / (1 << bits) for _ in range(outputs)] for _ in range(groups)]
        )
        scales = scales.half()
        index = [place // 16 for place in range(inputs)]
        if act_order:
            draws.shuffle(index)
        table = scales.tolist()
        meant[key] = torch.tensor(
            [
                [(numbers[row][at] - zeros[index[at]][row]) * table[index[at]][row] for at in range(inputs)]
                for row in range(outputs)
            ]
        )
        name = key.removesuffix("weight")
        columns = [list(column) for column in zip(*numbers, strict=True)]
        if method == "awq":
            order = (0, 2, 4, 6, 1, 3, 5, 7)
            weights[f"{name}qweight"], weights[f"{name}qzeros"] = (
                packed(columns, bits, order),
                packed(zeros, bits, order),
            )
        else:
            weights[f"{name}qweight"] = packed(numbers, bits).t().contiguous()
            weights[f"{name}qzeros"] = packed([[each - (version == 1) for each in row] for row in zeros], bits)
            weights[f"{name}g_idx"] = torch.tensor(index, dtype=torch.int32)
        weights[f"{name}scales"] = scales
    save_safetensors(weights, folder / "model.safetensors")
    options = {"quant_method": method, "bits": bits, "group_size": 16, "desc_act": act_order}
    options |= {"version": "gemm"} if method == "awq" else {"checkpoint_format": "gptq" if version == 1 else "gptq_v2"}
    write_json(folder / "config.json", {**config, "quantization_config": options})
    return meant


@pytest.mark.slow_on("webgpu")
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("gptq", {}),
        ("gptq", {"act_order": True}),
        ("gptq", {"bits": 8, "act_order": True}),
        ("gptq", {"version": 2}),
        ("awq", {}),
    ],
)
def test_checkpoints_in_a_few_bits(method: str, options: dict[str, Any], tmp_path: Path, device: str) -> None:
    if device != "cpu" and options != {"act_order": True}:
        pytest.skip("each encoding's product is tested with the operations")
    meant = quantized_checkpoint(tmp_path / "packed", method, **options)
    plain = load("llama", tmp_path / "plain", device)
    for key, weight in meant.items():
        plain.get_parameter(key).detach().copy_(weight)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "packed", device=device)
    ids = cases.tokens(torch)[0].to(device)
    with torch.no_grad():
        assert_close(model(ids).logits, plain(ids).logits, rtol=1e-4, atol=1e-4)
    assert sum(isinstance(each, EncodedLinear) for each in model.modules()) == len(meant)


def test_checkpoints_in_a_few_bits_that_are_wrong(tmp_path: Path) -> None:
    quantized_checkpoint(tmp_path, "gptq")
    weights = load_safetensors(tmp_path / "model.safetensors")
    config = json.loads((tmp_path / "config.json").read_text())
    name = "model.layers.1.mlp.up_proj"
    for part, value, message in (
        ("qzeros", None, f"{name} has a qweight and lacks qzeros"),
        ("scales", torch.ones(3, 48), f"{name} has parts that do not fit each other"),
        ("g_idx", torch.zeros(32, dtype=torch.int32), f"{name}.g_idx does not sort 32 inputs into 2 groups of 16"),
    ):
        changed = {key: each for key, each in weights.items() if key != f"{name}.{part}"}
        save_safetensors(changed | ({} if value is None else {f"{name}.{part}": value}), tmp_path / "model.safetensors")
        with pytest.raises(ValueError, match=message):
            AutoModelForCausalLM.from_pretrained(tmp_path)
    save_safetensors(weights, tmp_path / "model.safetensors")
    for change, message in (
        ({"bits": 3}, "quantization_config says 'gptq' with 3 bits; supported are gptq with 4 and 8 bits"),
        ({"quant_method": "aqlm"}, "quantization_config says 'aqlm'"),
    ):
        write_json(
            tmp_path / "config.json", {**config, "quantization_config": {**config["quantization_config"], **change}}
        )
        with pytest.raises(ValueError, match=message):
            AutoModelForCausalLM.from_pretrained(tmp_path)


# GGUF


@pytest.mark.parametrize("kind", cases.GGUF_BLOCKS)
def test_blocks_are_those_of_llama_cpp(kind: str, device: str) -> None:
    recorded = outputs_of("gguf")
    blocks, wanted = recorded[f"{kind}.blocks"], recorded[f"{kind}.numbers"]
    stored = Stored(kind, tuple(wanted.shape), memoryview(bytes(blocks.flatten().tolist())))
    assert torch.equal(decode(stored, device).cpu(), wanted)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def entry(key: str, value: Any) -> bytes:
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        return text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    kind, form = (6, "f") if isinstance(value, float) else (4, "I")
    return text(key) + struct.pack("<I" + form, kind, value)


def blocks_of(weight: Any) -> tuple[int, bytes]:
    """Return a matrix as Q8_0 where its rows are whole blocks, else as 32-bit floats."""
    numbers = weight.flatten().tolist()
    if weight.ndim < 2 or weight.shape[-1] % 32:
        return 0, struct.pack(f"<{len(numbers)}f", *numbers)
    data = b""
    for at in range(0, len(numbers), 32):
        block = numbers[at : at + 32]
        [scale] = struct.unpack("<e", struct.pack("<e", max(map(abs, block)) / 127))
        data += struct.pack("<e32b", scale, *[max(-127, min(127, round(each / scale))) for each in block])
    return 8, data


def gguf_file(path: Path, weights: dict[str, Any], metadata: dict[str, Any]) -> Path:
    header = b"GGUF" + struct.pack("<IQQ", 3, len(weights), len(metadata))
    header += b"".join(entry(key, value) for key, value in metadata.items())
    body = b""
    for name, weight in weights.items():
        kind, data = blocks_of(weight)
        shape = list(reversed(weight.shape))
        header += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(body))
        body += data + bytes(-len(data) % 32)
    path.write_bytes(header + bytes(-len(header) % 32) + body)
    return path


INNER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
SIZES = {
    "block_count": 3, "embedding_length": 32, "feed_forward_length": 48, "attention.head_count": 4, "attention.head_count_kv": 2,
    "context_length": 64, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 10000.0,
}  # fmt: skip


def llama_file(path: Path) -> Path:
    """Write the case "llama" as llama.cpp would: heads' rows in its own order."""
    weights = {}
    for key, value in cases.weights(torch, cases.description("llama")["weights"], 1.5).items():
        name, _, kind = key.rpartition(".")
        if name in OUTER:
            weights[f"{OUTER[name]}.{kind}"] = value
            continue
        _, _, layer, inner = name.split(".", 3)
        if inner.endswith(("q_proj", "k_proj")):
            heads = 4 if inner.endswith("q_proj") else 2
            value = value.reshape(heads, 2, -1, 32).transpose(1, 2).reshape(value.shape)
        weights[f"blk.{layer}.{INNER[inner]}.{kind}"] = value
    metadata = {"general.architecture": "llama", "general.tags": ["a", "b"], "tokenizer.ggml.bos_token_id": 5}
    return gguf_file(path, weights, {**metadata, **{f"llama.{key}": value for key, value in SIZES.items()}})


def test_decoders_from_gguf(tmp_path: Path) -> None:
    path, ids = llama_file(tmp_path / "model.gguf"), cases.tokens(torch)[0]
    model = AutoModelForCausalLM.from_gguf(path)
    assert model.config.bos_token_id == 5
    found = model.state_dict()
    wanted = cases.weights(torch, cases.description("llama")["weights"], 1.5)
    assert set(found) == set(wanted)
    for key, value in wanted.items():
        # Half a step of 127 to the greatest magnitude.
        assert (found[key] - value).abs().max() <= value.abs().max() * 0.5 / 126, key
    encoded = AutoModelForCausalLM.from_gguf(path, quantize="int8")
    with torch.no_grad():
        assert cosine(encoded(ids).logits, model(ids).logits) >= 0.999


def test_damaged_gguf_files(tmp_path: Path) -> None:
    """300 mutations of a file: each is read as what it says, or refused by a GGUFError that names the file."""
    whole = llama_file(tmp_path / "model.gguf").read_bytes()
    header = len(whole) - sum(len(each.data) for each in read_gguf(tmp_path / "model.gguf")[1].values())
    draws, path, refused = random.Random(0), tmp_path / "damaged.gguf", 0
    for number in range(300):
        data = bytearray(whole)
        if number % 3 == 0:
            del data[draws.randrange(len(data)) :]
        elif number % 3 == 1:
            at = draws.randrange(header - 8)
            data[at : at + 8] = draws.choice([b"\xff" * 8, bytes(8), draws.randbytes(8), b"\0\0\0\0\0\0\0\x7f"])
        else:
            data[draws.randrange(header)] ^= 1 << draws.randrange(8)
        path.write_bytes(data)
        try:
            load_gguf(path)
        except ValueError as error:
            refused += 1
            assert "damaged.gguf" in str(error)
    assert refused > 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"general.architecture": "mamba"}, "general.architecture is 'mamba'; supported are llama"),
        ({"llama.block_count": 0}, "llama.block_count is 0, expected a positive number"),
        ({"llama.rope.scaling.type": "yarn"}, "positions are stretched"),
    ],
)
def test_gguf_of_other_models(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    metadata = {"general.architecture": "llama", **{f"llama.{key}": value for key, value in SIZES.items()}, **change}
    path = gguf_file(tmp_path / "model.gguf", {"token_embd.weight": torch.ones(97, 32)}, metadata)
    with pytest.raises(GGUFError, match=message):
        load_gguf(path)


# Adapters


def adapted(case: str, folder: Path) -> tuple[Any, Path]:
    """Return a case's model without the adapter, and the adapter's folder."""
    described = json.loads((cases.FOLDER / "lora.json").read_text(encoding="utf-8"))
    name = cases.ADAPTERS[case][0]
    folder.mkdir(exist_ok=True)
    if name == "gpt2":
        write_json(folder / "config.json", described["gpt2"]["config"])
        weights = cases.weights(torch, described["gpt2"]["weights"], 1.5)
        save_safetensors(weights, folder / "model.safetensors")
    else:
        folder_of(name, folder)
    adapter = folder / "adapter"
    adapter.mkdir()
    write_json(adapter / "adapter_config.json", described[case]["config"])
    save_safetensors(cases.weights(torch, described[case]["weights"]), adapter / "adapter_model.safetensors")
    return AutoModelForCausalLM.from_pretrained(folder), adapter


@pytest.mark.parametrize("case", cases.ADAPTERS)
def test_adapters_compute_what_peft_recorded(case: str, tmp_path: Path) -> None:
    ids, wanted = cases.tokens(torch)[0], outputs_of("lora")[case]
    for merge in (False, True):
        model, adapter = adapted(case, tmp_path / str(merge))
        plain = model(ids).logits
        names = model.load_adapter(adapter, merge=merge)
        assert len(names) >= 4
        assert cosine(plain, wanted) < 0.9999
        assert_close(model(ids).logits.detach(), wanted, rtol=1e-4, atol=1e-4)
        if not merge:
            model(ids, labels=ids).loss.backward()
            assert all(model.get_submodule(name).lora_A.grad is not None for name in names)


def test_adapters_of_encoded_weights_and_wrong_ones(tmp_path: Path) -> None:
    plain, adapter = adapted("lora", tmp_path)
    ids = cases.tokens(torch)[0]
    model = AutoModelForCausalLM.from_pretrained(tmp_path, quantize="int8")
    with pytest.raises(ValueError, match="is a EncodedLinear: an adapter is merged into plain weights only"):
        model.load_adapter(adapter, merge=True)
    model.load_adapter(adapter)
    assert cosine(model(ids).logits.detach(), outputs_of("lora")["lora"]) >= 0.999
    config = json.loads((adapter / "adapter_config.json").read_text())
    for change, message in (({"peft_type": "IA3"}, "peft_type is 'IA3'"), ({"use_dora": True}, "use_dora is True")):
        write_json(adapter / "adapter_config.json", {**config, **change})
        with pytest.raises(ValueError, match=message):
            plain.load_adapter(adapter)
    write_json(adapter / "adapter_config.json", config)
    pair = {"A": torch.zeros(2, 5), "B": torch.zeros(32, 2)}
    before = {key: value.clone() for key, value in plain.state_dict().items()}
    name = "model.layers.0.self_attn.q_proj"
    for key, message in (
        (name, r"the adapter is \[out, in\] = \[32, 5\], the model \[32, 32\]"),
        ("no.such", "no linear map"),
    ):
        tensors = {f"base_model.model.{key}.lora_{side}.weight": value for side, value in pair.items()}
        save_safetensors(tensors, adapter / "adapter_model.safetensors")
        with pytest.raises(ValueError, match=message):
            plain.load_adapter(adapter)
    assert all(torch.equal(before[key], value) for key, value in plain.state_dict().items())
