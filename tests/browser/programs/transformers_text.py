"""Tokenizers and a tiny Llama of transformers, as they are: texts become tokens, tokens become a text that goes on."""

import json
import site
import sys
from pathlib import Path

import webgpu_torch

webgpu_torch.install_as_torch()
import torch  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig  # noqa: E402

# A page unpacks the folder beside its packages; elsewhere it is named.
given = Path(sys.argv[1] if len(sys.argv) > 1 else f"{site.getsitepackages()[0]}/tiny_tokenizers")
texts = json.loads((given / "texts.json").read_text(encoding="utf-8"))
encoded, decoded = {}, {}
for folder in sorted(each for each in given.iterdir() if each.is_dir()):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = tokenizer(texts, padding=True, truncation=True, max_length=24)
    encoded[folder.name] = [rows["input_ids"], rows["attention_mask"]]
    decoded[folder.name] = tokenizer.batch_decode(rows["input_ids"], skip_special_tokens=True)

tokenizer = AutoTokenizer.from_pretrained(given / "bytes")
sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": len(tokenizer)}
heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
model = AutoModelForCausalLM.from_config(LlamaConfig(**sizes, **heads)).eval()
# Devices draw different numbers.
for number, each in enumerate(model.parameters()):
    each.data.copy_(0.2 * torch.sin((0.37 + number) * torch.arange(each.numel())).reshape(each.shape))
prompt = tokenizer(["the tensors of a page", "one"], padding=True, padding_side="left", return_tensors="pt")
tokens = model.generate(**prompt, max_new_tokens=6, do_sample=False, pad_token_id=tokenizer.pad_token_id)
written = tokenizer.batch_decode(tokens, skip_special_tokens=True)
print(json.dumps({"encoded": encoded, "decoded": decoded, "tokens": tokens.tolist(), "written": written}))
