"""Programs whose kernels are recorded: networks in the sizes people run, and one of every form of kernel besides."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import webgpu_torch as torch
from webgpu_torch import nn
from webgpu_torch.nn import functional as F
from webgpu_torch_models import GPT2Config, GPT2LMHeadModel, Qwen3Config, Qwen3ForCausalLM
from webgpu_torch_models.linear import encode_linears

CONFIG: dict[str, Any] = {"vocab_size": 50257, "n_layer": 2, "resid_pdrop": 0.0, "embd_pdrop": 0.1, "attn_pdrop": 0.0}


def _compute(result: Any) -> None:
    """Have a result computed, and nobody read it."""
    torch.webgpu.synchronize(result.device)


def _gpt2(device: str) -> Any:
    # Without its initial values, whose drawing would take most of the time.
    with torch.device("meta"):
        model = GPT2LMHeadModel(GPT2Config(**CONFIG))
    model.to_empty(device=device)
    # Parameters that come from meta are new ones.
    model.tie_weights()
    return model


def gpt2_generate(device: str) -> None:
    """Prefill and three steps of decoding, as generated without and with shared sizes."""
    model = _gpt2(device).eval()
    with torch.no_grad():
        for tokens in (9, 200):
            prompt = torch.zeros(1, tokens, dtype=torch.int64, device=device)
            model.generate(prompt, max_new_tokens=4, do_sample=False)


def gpt2_half(device: str) -> None:
    """A forward pass in float16 and in bfloat16."""
    for dtype in (torch.float16, torch.bfloat16):
        model = _gpt2(device).to(dtype).eval()
        with torch.no_grad():
            _compute(model(torch.zeros(2, 64, dtype=torch.int64, device=device)).logits)


@cache
def _packed() -> Any:
    """Return a decoder with weights of four bits on the CPU, where they are encoded once for all adapters."""
    config = Qwen3Config(
        vocab_size=512, hidden_size=128, intermediate_size=17408, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=64, max_position_embeddings=256,
    )  # fmt: skip
    with torch.device("meta"):
        model = Qwen3ForCausalLM(config)
    model = model.to(torch.float16).to_empty(device="cpu").eval()
    for each in model.parameters():
        nn.init.ones_(each)
    encode_linears(model, dict(model.state_dict()), "int4", torch.device("cpu"), model.active_ties())
    return model


def packed_decoder(device: str) -> None:
    """A prompt and tokens of a decoder with weights of four bits, rows of which are longer than workgroup memory takes."""
    model = copy.deepcopy(_packed()).to(device)
    with torch.no_grad():
        model.generate(torch.zeros(1, 40, dtype=torch.int64, device=device), max_new_tokens=4, do_sample=False)


def gpt2_train(device: str) -> None:
    """Two steps of AdamW."""
    model = _gpt2(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    tokens = torch.zeros(4, 128, dtype=torch.int64, device=device)
    for _ in range(2):
        loss = model(tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()


class UNetBlock(nn.Module):
    """A residual block and self-attention over the pixels, as in diffusion models."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(32, channels), nn.GroupNorm(32, channels)
        self.narrow = nn.Conv2d(channels, channels, 3, padding=1)
        self.wide = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(512, channels)
        self.attention = nn.MultiheadAttention(channels, heads, batch_first=True)
        self.down = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(2 * channels, channels, 4, stride=2, padding=1)

    def forward(self, x: Any, time: Any) -> Any:
        h = self.narrow(F.silu(self.first(x))) + self.time(F.silu(time))[:, :, None, None]
        x = x + self.wide(F.silu(self.second(h)))
        flat = x.flatten(2).transpose(1, 2)
        x = x + self.attention(flat, flat, flat, need_weights=False)[0].transpose(1, 2).reshape(x.shape)
        small = F.interpolate(self.down(x), scale_factor=2.0, mode="nearest")
        return self.up(F.avg_pool2d(small, 2)) + x


def unet(device: str) -> None:
    """A U-Net block forward, and a training step of it."""
    with torch.device("meta"):
        block = UNetBlock(64, 4)
    block.to_empty(device=device)
    image = torch.zeros(2, 64, 32, 32, device=device)
    time = torch.zeros(2, 512, device=device)
    optimizer = torch.optim.Adam(block.parameters())
    with torch.no_grad():
        block(image, time).sum().item()
    F.mse_loss(block(image, time), image).backward()
    optimizer.step()
    torch.webgpu.synchronize(device)


class ResNetBlock(nn.Module):
    """The basic block, with a strided shortcut."""

    def __init__(self, planes: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(planes, 2 * planes, 3, stride=2, padding=1, bias=False)
        self.second = nn.Conv2d(2 * planes, 2 * planes, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(planes, 2 * planes, 1, stride=2, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(2 * planes) for _ in range(3))

    def forward(self, x: Any) -> Any:
        h = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(h)) + self.norms[2](self.shortcut(x)))


def resnet(device: str) -> None:
    """Stem, one block, pooling and a classifier: inference, and a step of SGD with momentum."""
    with torch.device("meta"):
        stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        tail = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 1000)]
        model = nn.Sequential(*stem, ResNetBlock(64), *tail)
    model.to_empty(device=device)
    images = torch.zeros(4, 3, 96, 96, device=device)
    labels = torch.zeros(4, dtype=torch.int64, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
    loss.backward()
    optimizer.step()
    loss.item()
    with torch.no_grad():
        model.eval()(images).argmax(1).tolist()


def _made(device: str, *shape: int, dtype: Any = torch.float32) -> Any:
    # Filled by the host, so that the kernel that makes it does not merge with what is recorded.
    return torch.empty(*shape, dtype=dtype, device=device)


def matrices(device: str) -> None:
    """Products large, thin, batched, transposed, and of several types."""
    shapes = [
        (4096, 4096, 4096),
        (1, 4096, 4096),
        (8, 4096, 1024),
        (513, 77, 1030),
        (64, 50257, 768),
        (32, 32, 1 << 20),
    ]
    for m, n, k in shapes:
        a, b = _made(device, m, k), _made(device, k, n)
        (a @ b).sum().item()
        torch.relu(a @ _made(device, n, k).t() + _made(device, n)).sum().item()
    torch.bmm(_made(device, 12, 128, 64), _made(device, 12, 64, 128)).softmax(-1).sum().item()
    for dtype in (torch.float16, torch.bfloat16, torch.int32, torch.int64):
        _compute((_made(device, 256, 384, dtype=dtype) @ _made(device, 384, 512, dtype=dtype)))
        _compute(torch.mv(_made(device, 2048, 512, dtype=dtype), _made(device, 512, dtype=dtype)))


def rows(device: str) -> None:
    """Reductions and normalisations over short, long, inner and outer dimensions."""
    for shape in ((1 << 24,), (4096, 1000), (7, 1 << 20), (1000, 3)):
        x = _made(device, *shape)
        x.sum().item()
        _compute(x.amax(-1))
        _compute(x.softmax(-1))
        _compute(x.sum(0))
        _compute(x.argmin(0))
        _compute(F.layer_norm(x, x.shape[-1:]))
        _compute(x.var(-1))
    for dtype in (torch.int64, torch.bool, torch.bfloat16, torch.uint8, torch.float16):
        x = _made(device, 300, 700, dtype=dtype)
        _compute(x.sum(1))
        x.any().item()
        _compute(x.prod(0))


def orders(device: str) -> None:
    """Sorting, scanning, scattering, gathering."""
    x = _made(device, 50, 3000)
    index = _made(device, 50, 3000, dtype=torch.int64)
    for value in (x, index, _made(device, 1 << 21), _made(device, 50, 3000, dtype=torch.float16)):
        _compute(value.sort(-1).values)
        _compute(value.cumsum(-1))
        _compute(value.topk(5).indices)
    _compute(x.cumprod(0))
    _compute(x.cummax(1).values)
    _compute(x.logcumsumexp(1))
    _compute(x.gather(1, index))
    for reduce in ("sum", "amax", "prod", "mean"):
        _compute(x.scatter_reduce(1, index, x, reduce))
    _compute(x.scatter(1, index, 2.0))
    _compute(x.index_add(0, index[0, :50], x))
    _compute(F.embedding(index, _made(device, 1000, 64)))
    _compute(x[x > 0])
    _compute(x.half().scatter_add(1, index, x.half()))
    _compute(index.scatter_add(1, index, index))


def pointwise(device: str) -> None:
    """Element-wise kernels of every vectorisation, layout and type; numbers of every function."""
    x, y = _made(device, 1 << 22), _made(device, 1 << 22)
    _compute((x * 2 + y).sigmoid())
    _compute((_made(device, 511, 1025).t() * _made(device, 1025, 1)).contiguous())
    for name in ("exp", "log", "sin", "tan", "erf", "lgamma", "expm1", "asinh", "rsqrt", "tanh", "digamma", "floor"):
        _compute(getattr(x, name)())
    _compute(torch.pow(x, y))
    _compute(torch.atan2(x, y))
    _compute(x // y)
    _compute(torch.fmod(x, y))
    _compute(torch.where(x > y, x, 0.5))
    for dtype in (
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.uint8,
        torch.int8,
        torch.bool,
        torch.int16,
    ):
        z = _made(device, 1000, 77, dtype=dtype)
        _compute(z + z)
        _compute(z.float().exp())
        _compute(z.t().contiguous())
        _compute(torch.cat([z, z], 1))
        if not dtype.is_floating_point and dtype is not torch.bool:
            _compute(z // 3)
            _compute(z % z)
    _compute(torch.rand(1000, 1000, device=device))
    _compute(torch.randn(100003, device=device))
    _compute(torch.randint(0, 17, (1000,), device=device))
    _compute(torch.randperm(1000, device=device))
    _compute(F.dropout(x, 0.5))
    # Longer than some adapters bind at once.
    _compute((_made(device, 1 << 26) + 1).flip(0))


PROGRAMS: dict[str, Callable[[str], None]] = {
    each.__name__: each
    for each in (gpt2_generate, gpt2_half, packed_decoder, gpt2_train, unet, resnet, matrices, rows, orders, pointwise)
}
