import torch
from local_attention import LocalAttention
from local_attention.transformer import LocalTransformer


def windows():
    q, k, v = (torch.randn(2, 8, 32, 16, requires_grad=True) for _ in range(3))
    mask = torch.ones(2, 32, dtype=torch.bool)
    mask[1, 20:] = False
    out = LocalAttention(dim=16, window_size=8, causal=True, look_backward=1, exact_windowsize=True)(q, k, v, mask=mask)
    out.square().sum().backward()
    return [out, q.grad, k.grad, v.grad]


def model():
    net = LocalTransformer(
        num_tokens=20, dim=16, depth=2, max_seq_len=32, causal=True, local_attn_window_size=8, heads=2, dim_head=8
    )
    loss = net(torch.randint(0, 20, (2, 32)), return_loss=True)
    loss.backward()
    return [loss, torch.stack([each.grad.norm() for each in net.parameters() if each.grad is not None])]
