"""Teach a language model a text with peft's LoRA and transformers' Trainer, and save the adapter.

    python examples/huggingface/lora_finetuning.py --model Qwen/Qwen3-0.6B --text examples/data/tensors.md

One line makes it run on WebGPU; without it this is a PyTorch program.
"""

import argparse
from pathlib import Path

import webgpu_torch.as_torch  # isort: split

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, set_seed

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", default="Qwen/Qwen3-0.6B", help="a folder, or an id on the hub")
parser.add_argument("--text", type=Path, default=Path(__file__).parent.parent / "data" / "tensors.md")
parser.add_argument("--output", default="adapter", help="the folder that the adapter is saved in")
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--length", type=int, default=128, help="tokens in a row")
parser.add_argument("--rate", type=float, default=2e-4)
parser.add_argument("--cpu", action="store_true", help="train on the processor even if there is a GPU")
options = parser.parse_args()

set_seed(0)
tokenizer = AutoTokenizer.from_pretrained(options.model)
tokens = tokenizer(options.text.read_text(encoding="utf-8"), return_tensors="pt").input_ids[0]
rows = tokens[: len(tokens) // options.length * options.length].view(-1, options.length)

model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"))
model.print_trainable_parameters()

arguments = TrainingArguments(
    options.output,
    max_steps=options.steps,
    per_device_train_batch_size=options.batch,
    learning_rate=options.rate,
    logging_steps=1,
    save_strategy="no",
    report_to=[],
    use_cpu=options.cpu,
)
trainer = Trainer(model=model, args=arguments, train_dataset=[{"input_ids": row, "labels": row} for row in rows])
trainer.train()
trainer.save_model()
print(f"saved {options.output}")
