"""``generate`` on WebGPU keeps a static cache and replays its steps; the tokens are those of a growing cache."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

pytest.importorskip("transformers")

PROGRAM = """
import webgpu_torch; webgpu_torch.install_as_torch()
import copy
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

torch.manual_seed(0)
config = Qwen3Config(
    vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, eos_token_id=None, bos_token_id=None,
)
model = Qwen3ForCausalLM(config).eval()
tokens = torch.randint(0, 100, (2, 7))
mask = torch.ones((2, 7), dtype=torch.int64)
mask[0, :2] = 0
options = dict(max_new_tokens=12, do_sample=False, pad_token_id=0)
expected = model.generate(tokens, **options)
expected_padded = model.generate(tokens, attention_mask=mask, **options)
assert not hasattr(model, "_compiled_call")
model = model.to("webgpu")
tokens, mask = tokens.to("webgpu"), mask.to("webgpu")
for _ in range(2):
    found = model.generate(tokens, **options)
    assert found.tolist() == expected.tolist(), (found, expected)
# One step was recorded; another call's cache is another object, and replays it.
assert model._compiled_call.statistics == {"recorded": 1, "replayed": 21, "fallbacks": 0}, model._compiled_call.statistics
assert model.generate(tokens, attention_mask=mask, **options).tolist() == expected_padded.tolist()
copied = copy.deepcopy(model)
assert copied.generate(tokens, **options).tolist() == expected.tolist()
assert model.generate(tokens, cache_implementation="dynamic", **options).tolist() == expected.tolist()

from webgpu_torch_core.record.devices import canonical_device, engine_for

engine = engine_for(canonical_device("webgpu"))
for _ in range(4):
    # Sizes that come back get kernels of their own.
    model.generate(tokens, **options)
counts = []
for length in (6, 12):
    before = {**engine.statistics, **engine.device.statistics}
    model.generate(tokens, **{**options, "max_new_tokens": length})
    after = {**engine.statistics, **engine.device.statistics}
    counts.append({key: after[key] - before[key] for key in after})
# Six tokens more: nothing is compiled for them, and each waits for the device once.
assert counts[1]["programs"] == 0, counts
assert counts[1]["reads"] - counts[0]["reads"] == 6, counts
print("same tokens")
"""


@pytest.mark.slow
def test_steps_are_captured(run_code: Callable[..., str]) -> None:
    assert run_code(textwrap.dedent(PROGRAM)).endswith("same tokens\n")


KINDS = """
import webgpu_torch; webgpu_torch.install_as_torch()
import warnings
import torch
from transformers import MistralConfig, MistralForCausalLM, T5Config, T5ForConditionalGeneration

warnings.simplefilter("error")
torch.manual_seed(0)
options = dict(max_new_tokens=10, do_sample=False, pad_token_id=0)
sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
t5 = T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
models = [T5ForConditionalGeneration(t5), MistralForCausalLM(MistralConfig(vocab_size=100, sliding_window=8, **sizes))]
for model in models:
    model = model.to("webgpu").eval()
    model.generation_config.eos_token_id = None
    tokens = torch.randint(3, 100, (2, 7)).to("webgpu")
    for beams in (1, 3):
        grown = model.generate(tokens, cache_implementation="dynamic", num_beams=beams, **options)
        for _ in range(2):
            assert model.generate(tokens, num_beams=beams, **options).tolist() == grown.tolist()
assert models[0]._compiled_call.statistics["replayed"] == 17
assert not hasattr(models[1], "_compiled_call")
print("same tokens")
"""


@pytest.mark.slow
def test_encoders_windows_and_beams(run_code: Callable[..., str]) -> None:
    """A decoder's two caches, windows that slide (which are not captured) and beams."""
    assert run_code(textwrap.dedent(KINDS)).endswith("same tokens\n")


ENDS = """
import webgpu_torch; webgpu_torch.install_as_torch()
import torch
import transformers.generation.utils
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.generation.streamers import BaseStreamer

torch.manual_seed(0)
model = Qwen3ForCausalLM(Qwen3Config(
    vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, eos_token_id=None, bos_token_id=None,
)).eval()
tokens = torch.randint(0, 100, (2, 7))
options = dict(max_new_tokens=12, do_sample=False, pad_token_id=0)
rows = model.generate(tokens, **options)[:, 7:].tolist()


class Kept(BaseStreamer):
    def __init__(self):
        self.tokens = []

    def put(self, value):
        assert value.device.type == "cpu"
        self.tokens.append(value.tolist())

    def end(self):
        self.tokens.append("end")


def asked(model, tokens, end, **more):
    streamer = Kept() if len(tokens) == 1 else None
    given = {**options, "eos_token_id": end, "streamer": streamer, "return_dict_in_generate": True, "output_scores": True, **more}
    found = model.generate(tokens, **given)
    length = found.past_key_values.get_seq_length()
    return found.sequences.tolist(), len(found.scores), int(length), streamer and streamer.tokens


# Tokens that end one sequence or both, at once, in the middle, at the last step, never.
ends = [rows[0][0], rows[0][3], rows[1][5], rows[0][-1], [rows[0][2], rows[1][8]], 99]
wanted = [[asked(model, given, end) for end in ends] for given in (tokens, tokens[:1])]
checks = transformers.generation.utils.DeferredStopCheck
late, called = [], checks.__call__
checks.__call__ = lambda self, *args: late.append(self) or called(self, *args)
there = model.to("webgpu")
for more in ({}, {"cache_implementation": "dynamic"}):
    for given, expected in zip((tokens, tokens[:1]), wanted):
        found = [asked(there, given.to("webgpu"), end, **more) for end in ends]
        assert found == expected, (more, found, expected)
assert late
print("same tokens")
"""


@pytest.mark.slow
def test_whether_to_stop_is_read_a_step_late(run_code: Callable[..., str]) -> None:
    """What comes back, streamed tokens among it, is what waiting at every step gives, wherever a sequence ends."""
    assert run_code(textwrap.dedent(ENDS)).endswith("same tokens\n")
