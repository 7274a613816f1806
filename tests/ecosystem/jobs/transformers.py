import torch
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel


def classification():
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=40,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=24,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    found = model(torch.randint(0, 40, (2, 6)), labels=torch.tensor([0, 1]))
    found.loss.backward()
    return [
        found.loss,
        found.logits,
        torch.stack([each.grad.norm() for each in model.parameters() if each.grad is not None]),
    ]


def generation():
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=40, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=39)
    ).eval()
    ids = torch.randint(0, 39, (2, 4))
    return [
        model.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=0),
        model.generate(ids, max_new_tokens=4, num_beams=2, pad_token_id=0),
    ]
