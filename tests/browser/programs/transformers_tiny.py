"""A tiny Llama by transformers, as it is: drawn, asked for tokens, saved, loaded, and asked again."""

import json
import tempfile

import webgpu_torch

webgpu_torch.install_as_torch()
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}

model = LlamaForCausalLM(LlamaConfig(**SIZES, **HEADS)).eval()
# Devices draw different numbers.
for number, each in enumerate(model.parameters()):
    each.data.copy_(0.2 * torch.sin((0.37 + number) * torch.arange(each.numel())).reshape(each.shape))
prompt = torch.arange(6).reshape(1, 6)
logits = model(prompt).logits[0, -1]
tokens = model.generate(prompt, max_new_tokens=4, do_sample=False, pad_token_id=0).tolist()
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    # from_pretrained wants accelerate wherever new tensors are not on the CPU, of which a page has none.
    again = LlamaForCausalLM(LlamaConfig.from_pretrained(folder)).eval()
    again.load_state_dict(load_file(f"{folder}/model.safetensors"))
assert torch.equal(again(prompt).logits[0, -1], logits)
print(json.dumps({"tokens": tokens, "logits": logits.tolist(), "device": again.device.type}))
