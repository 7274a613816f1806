"""Fine-tunes a tiny Llama under whichever torch there is: ``python lora_training.py FOLDER DEVICE STEPS WAY [write]``.

With ``write`` it makes the checkpoint, the adapter and the data first. ``WAY`` is ``trainer`` (transformers' Trainer on
peft's LoRA), ``full`` (the same without an adapter) or ``loop`` (a plain loop). Losses go to ``losses.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

BATCH, LENGTH, ROWS = 4, 12, 40


def write(folder: Path) -> None:
    """Write a model with random weights, an untrained adapter, and tokens to learn."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder / "model")
    # With their own factors set to 0, as LoRA starts, half of the adapter's gradients would be 0 in the first step.
    adapter = LoraConfig(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj", "lm_head"], init_lora_weights=False
    )
    get_peft_model(model, adapter).save_pretrained(folder / "adapter")
    generator = np.random.default_rng(0)
    np.save(folder / "tokens.npy", (generator.integers(0, 8, (ROWS, 1)) + np.arange(LENGTH)) % 8 + 3)


class Rows:
    """The data set: every row predicts itself."""

    def __init__(self, tokens: Any) -> None:
        self.tokens = tokens

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def with_trainer(torch: Any, model: Any, rows: Rows, folder: Path, device: str, steps: int) -> list[float]:
    """Return each step's loss of transformers' Trainer, and check that it saves what it trained."""
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        str(folder / f"run-{torch.__name__}"), max_steps=steps, per_device_train_batch_size=BATCH, logging_steps=1,
        learning_rate=1e-2, warmup_steps=2, lr_scheduler_type="cosine", weight_decay=0.01, report_to=[], seed=3,
        use_cpu=device == "cpu", save_strategy="no", disable_tqdm=True, logging_nan_inf_filter=False,
    )  # fmt: skip
    trainer = Trainer(model=model, args=arguments, train_dataset=rows)
    trainer.train()
    trainer.save_model()
    assert list((folder / f"run-{torch.__name__}").glob("*.safetensors"))
    places = {each.device.type for each in trainer.model.parameters()}
    assert places == {device}, places
    return [each["loss"] for each in trainer.state.log_history if "loss" in each]


def with_loop(torch: Any, model: Any, rows: Rows, device: str, steps: int) -> list[float]:
    """Return each step's loss of a plain loop with AdamW, clipping and accumulated gradients."""
    model.to(device).train()
    loader = torch.utils.data.DataLoader(rows, BATCH, shuffle=True, generator=torch.Generator().manual_seed(5))
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses: list[float] = []
    while len(losses) < steps:
        for batch in loader:
            given = {key: value.to(device) for key, value in batch.items()}
            loss = model(**given).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            if len(losses) == steps:
                break
    return losses


def main() -> None:
    """Train, and write the losses."""
    folder, device, steps, way = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    writes = "write" in sys.argv[5:]
    if not writes:
        import webgpu_torch

        webgpu_torch.install_as_torch()
    import torch
    from peft import PeftModel
    from transformers import LlamaForCausalLM, set_seed

    if writes:
        torch.set_num_threads(1)
        if not (folder / "tokens.npy").exists():
            write(folder)
    set_seed(1)
    model: Any = LlamaForCausalLM.from_pretrained(folder / "model")
    if way != "full":
        model = PeftModel.from_pretrained(model, folder / "adapter", is_trainable=True)
    rows = Rows(torch.tensor(np.load(folder / "tokens.npy")))
    if way == "loop":
        losses = with_loop(torch, model, rows, device, steps)
    else:
        losses = with_trainer(torch, model, rows, folder, device, steps)
    (folder / f"losses-{'torch' if writes else 'ours'}.json").write_text(json.dumps(losses))


if __name__ == "__main__":
    main()
