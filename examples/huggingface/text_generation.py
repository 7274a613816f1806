"""Continue a text with a language model from the Hugging Face hub, or from a folder.

    python examples/huggingface/text_generation.py --model Qwen/Qwen3-0.6B --prompt "The capital of France is"

One line makes it run on WebGPU; without it this is a PyTorch program.
"""

import argparse

import webgpu_torch.as_torch  # isort: split

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, TextStreamer

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", default="Qwen/Qwen3-0.6B", help="a folder, or an id on the hub")
parser.add_argument("--prompt", default="The capital of France is")
parser.add_argument("--max-new-tokens", type=int, default=40)
parser.add_argument("--sample", action="store_true", help="draw tokens instead of taking the likeliest")
parser.add_argument("--device", default=str(torch.accelerator.current_accelerator() or "cpu"))
options = parser.parse_args()

torch.manual_seed(0)
tokenizer = AutoTokenizer.from_pretrained(options.model)
model = AutoModelForCausalLM.from_pretrained(options.model, dtype="auto").to(options.device).eval()
inputs = tokenizer(options.prompt, return_tensors="pt").to(options.device)
model.generate(
    **inputs,
    max_new_tokens=options.max_new_tokens,
    do_sample=options.sample,
    streamer=TextStreamer(tokenizer, skip_special_tokens=True),
)
