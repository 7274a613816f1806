import torch
from linear_attention_transformer import LinearAttentionTransformerLM


def forward():
    model = LinearAttentionTransformerLM(
        num_tokens=30, dim=16, heads=2, depth=2, max_seq_len=32, causal=True, blindspot_size=4
    )
    out = model(torch.randint(0, 30, (1, 32)))
    out.square().mean().backward()
    return [out, torch.stack([each.grad.norm() for each in model.parameters() if each.grad is not None])]
