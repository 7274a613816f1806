"""Fifteen everyday jobs of the CPU, each written once over the public interface that both libraries have.

A job is a function of the library that returns what to repeat: a training step, an inference or a solution. Networks are
written out here and have random weights; their shapes are those of the papers and packages they are named after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: a library: this one or PyTorch
Library = Any
Job = Callable[[], Any]


def trained(t: Library, model: Any, loss: Callable[[], Any]) -> Job:
    """Return a training step: a loss, its gradients and an update of all parameters."""
    optimizer = t.optim.AdamW(model.parameters())

    def run() -> Any:
        found = loss()
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
        return found

    return run


def inferred(t: Library, model: Any, *inputs: Any) -> Job:
    """Return an inference without gradients."""
    model.eval()

    def run() -> Any:
        with t.no_grad():
            return model(*inputs)

    return run


def classified(t: Library, model: Any, x: Any, classes: int = 10, of: Callable[[Any], Any] = lambda y: y) -> Job:
    """Return a training step of a classifier."""
    labels = t.randint(0, classes, (x.shape[0],))
    return trained(t, model, lambda: t.nn.functional.cross_entropy(of(model(x)), labels))


def perceptron(t: Library) -> Job:
    """Return a step of a perceptron of two layers."""
    nn = t.nn
    return classified(t, nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)), t.randn(32, 784))


def digits(t: Library) -> Job:
    """Return a step of the network that tutorials train on handwritten digits."""
    nn = t.nn
    convolutions = (nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2))
    return classified(t, nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(4608, 10)), t.randn(32, 1, 28, 28))


def recurrent(t: Library) -> Job:
    """Return a step of an LSTM over 40 places."""
    return classified(t, t.nn.LSTM(64, 128, batch_first=True), t.randn(32, 40, 64), of=lambda y: y[0][:, -1])


def encoder(t: Library) -> Job:
    """Return a step of a Transformer's encoder layer."""
    model = t.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    return classified(t, model, t.randn(32, 32, 128), of=lambda y: y.mean(1))


def residual(t: Library, counts: tuple[int, ...], deep: bool) -> Any:
    """Return a residual network (He et al., 2016) of basic blocks, or of bottlenecks."""
    nn = t.nn

    class Block(nn.Module):
        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            outputs = 4 * width if deep else width
            sizes = ((1, 1), (3, stride), (1, 1)) if deep else ((3, stride), (3, 1))
            layers: list[Any] = []
            channels = inputs
            for number, (size, step) in enumerate(sizes):
                following = outputs if number == len(sizes) - 1 else width
                layers += [nn.Conv2d(channels, following, size, step, size // 2, bias=False), nn.BatchNorm2d(following)]
                layers += [nn.ReLU()]
                channels = following
            self.body = nn.Sequential(*layers[:-1])
            plain = stride == 1 and inputs == outputs
            change = (nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
            self.shortcut = nn.Identity() if plain else nn.Sequential(*change)

        def forward(self, x: Any) -> Any:
            return (self.body(x) + self.shortcut(x)).relu()

    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    blocks, channels = [], 64
    for stage, count in enumerate(counts):
        width = 64 << stage
        for number in range(count):
            blocks.append(Block(channels, width, 2 if stage and not number else 1))
            channels = 4 * width if deep else width
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def resnet18(t: Library) -> Job:
    """Return a step of ResNet-18 on four images."""
    return classified(t, residual(t, (2, 2, 2, 2), False), t.randn(4, 3, 64, 64), 1000)


def resnet50(t: Library) -> Job:
    """Return an inference of ResNet-50."""
    return inferred(t, residual(t, (3, 4, 6, 3), True), t.randn(1, 3, 224, 224))


#: of MobileNetV3-Small: kernel, expanded and resulting channels, squeeze and excitation, hard swish, stride
_MOBILE = (
    (3, 16, 16, 1, 0, 2), (3, 72, 24, 0, 0, 2), (3, 88, 24, 0, 0, 1), (5, 96, 40, 1, 1, 2), (5, 240, 40, 1, 1, 1),
    (5, 240, 40, 1, 1, 1), (5, 120, 48, 1, 1, 1), (5, 144, 48, 1, 1, 1), (5, 288, 96, 1, 1, 2), (5, 576, 96, 1, 1, 1),
    (5, 576, 96, 1, 1, 1),
)  # fmt: skip


def mobilenet(t: Library) -> Job:
    """Return an inference of MobileNetV3-Small (Howard et al., 2019)."""
    nn = t.nn

    def layer(inputs: int, outputs: int, size: int, stride: int, groups: int, act: Any) -> list[Any]:
        convolution = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
        return [convolution, nn.BatchNorm2d(outputs), *([act()] if act else [])]

    class Excitation(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            inner = max(channels // 4 // 8 * 8, 8)
            self.gate = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, inner, 1), nn.ReLU(), nn.Conv2d(inner, channels, 1), nn.Hardsigmoid()
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            return x * self.gate(x)

    class Block(nn.Module):
        def __init__(self, inputs: int, row: tuple[int, ...]) -> None:
            super().__init__()
            size, expanded, outputs, squeezes, hard, stride = row
            act = nn.Hardswish if hard else nn.ReLU
            layers = layer(inputs, expanded, 1, 1, 1, act) if expanded != inputs else []
            layers += layer(expanded, expanded, size, stride, expanded, act)
            layers += [Excitation(expanded)] if squeezes else []
            self.body = nn.Sequential(*layers, *layer(expanded, outputs, 1, 1, 1, None))
            self.residual = stride == 1 and inputs == outputs

        def forward(self, x: Any) -> Any:
            return x + self.body(x) if self.residual else self.body(x)

    inputs = (16, *(row[2] for row in _MOBILE))
    blocks = [Block(before, row) for before, row in zip(inputs, _MOBILE, strict=False)]
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, 1000))
    first, last = layer(3, 16, 3, 2, 1, nn.Hardswish), layer(96, 576, 1, 1, 1, nn.Hardswish)
    return inferred(t, nn.Sequential(*first, *blocks, *last, *head), t.randn(1, 3, 224, 224))


def filters(t: Library) -> Job:
    """Return filters of images as kornia writes them: a blur, gradients and their strength, a sharpened image."""
    functional, images = t.nn.functional, t.rand(2, 3, 256, 256)
    places = t.arange(9, dtype=t.float32) - 4
    weights = (-(places**2) / 4.5).exp()
    weights = weights / weights.sum()
    sobel = t.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]) / 8

    def each_channel(x: Any, weight: Any) -> Any:
        rows, columns = weight.shape
        pads = (columns // 2, columns // 2, rows // 2, rows // 2)
        padded = functional.pad(x, pads, mode="reflect" if rows * columns < 10 else "replicate")
        return functional.conv2d(padded, weight.expand(3, 1, rows, columns), groups=3)

    def run() -> Any:
        blurred = each_channel(each_channel(images, weights[None, :]), weights[:, None])
        strength = (each_channel(blurred, sobel) ** 2 + each_channel(blurred, sobel.T) ** 2 + 1e-6).sqrt()
        return strength, (images + 0.5 * (images - blurred)).clamp(0, 1)

    return run


def solver(t: Library) -> Job:
    """Return a step that fits a differential equation to a curve through a Runge-Kutta method of order 4, as torchdiffeq."""
    nn = t.nn
    field = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))
    start, curve, step = t.randn(20, 1, 2), t.randn(11, 20, 1, 2), 0.1

    def loss() -> Any:
        y, found = start, [start]
        for _ in range(10):
            k1 = field(y**3)
            k2 = field((y + step * k1 / 3) ** 3)
            k3 = field((y + step * (k2 - k1 / 3)) ** 3)
            k4 = field((y + step * (k1 - k2 + k3)) ** 3)
            y = y + (k1 + 3 * (k2 + k3) + k4) * step * 0.125
            found.append(y)
        return (t.stack(found) - curve).abs().mean()

    return trained(t, field, loss)


def graph(t: Library) -> Job:
    """Return a step of a graph convolutional network (Kipf and Welling, 2017) on a graph of Cora's size."""
    nn, functional = t.nn, t.nn.functional
    nodes, edges, features = 2708, 10556, 256
    source, target = t.randint(0, nodes, (edges,)), t.randint(0, nodes, (edges,))
    x, labels = t.randn(nodes, features), t.randint(0, 7, (nodes,))

    class Convolution(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.linear = nn.Linear(inputs, outputs)

        def forward(self, x: Any) -> Any:
            degree = t.ones(nodes).index_add(0, target, t.ones(edges))
            weight = (degree[source] * degree[target]).rsqrt()
            y = self.linear(x)
            return t.zeros(nodes, y.shape[1]).index_add(0, target, y[source] * weight[:, None])

    one, two = Convolution(features, 16), Convolution(16, 7)
    return trained(t, nn.ModuleList([one, two]), lambda: functional.cross_entropy(two(functional.relu(one(x))), labels))


def rotary(t: Library) -> Job:
    """Return a step of a decoder as x-transformers writes it: rotary positions, gated feed-forward, causal attention."""
    nn, functional = t.nn, t.nn.functional
    width, heads, length, vocabulary = 256, 4, 128, 1000

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
            self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, sine: Any, cosine: Any) -> Any:
            batch = x.shape[0]
            q, k, v = self.qkv(self.norms[0](x)).reshape(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
            q, k = (each * cosine + t.cat((-each[..., 32:], each[..., :32]), -1) * sine for each in (q, k))
            found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(found.transpose(1, 2).reshape(batch, length, width))
            value, gate = self.up(self.norms[1](x)).chunk(2, -1)
            return x + self.down(value * functional.gelu(gate))

    blocks = nn.ModuleList([Block() for _ in range(4)])
    embedding, head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
    tokens = t.randint(0, vocabulary, (4, length + 1))
    angles = t.arange(length, dtype=t.float32)[:, None] * 10000 ** (-t.arange(32, dtype=t.float32) / 32)
    angles = t.cat((angles, angles), -1)
    sine, cosine = angles.sin(), angles.cos()

    def loss() -> Any:
        x = embedding(tokens[:, :-1])
        for block in blocks:
            x = block(x, sine, cosine)
        return functional.cross_entropy(head(x).reshape(-1, vocabulary), tokens[:, 1:].reshape(-1))

    return trained(t, nn.ModuleList([blocks, embedding, head]), loss)


def selective(t: Library) -> Job:
    """Return a step of a Mamba block (Gu and Dao, 2023), its recurrence written as a loop over places."""
    nn, functional = t.nn, t.nn.functional
    width, inner, states, rank, length = 64, 128, 16, 4, 32

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.project = nn.LayerNorm(width), nn.Linear(width, 2 * inner, bias=False)
            self.convolution = nn.Conv1d(inner, inner, 4, padding=3, groups=inner)
            self.parts, self.delta = nn.Linear(inner, rank + 2 * states, bias=False), nn.Linear(rank, inner)
            self.rates = nn.Parameter(t.arange(1, states + 1, dtype=t.float32).repeat(inner, 1).log())
            self.skip, self.out = nn.Parameter(t.ones(inner)), nn.Linear(inner, width, bias=False)

        def forward(self, x: Any) -> Any:
            u, gate = self.project(self.norm(x)).chunk(2, -1)
            u = functional.silu(self.convolution(u.transpose(1, 2))[..., :length].transpose(1, 2))
            delta, b, c = self.parts(u).split([rank, states, states], -1)
            delta = functional.softplus(self.delta(delta))
            decay = (delta[..., None] * -self.rates.exp()).exp()
            drive = (delta * u)[..., None] * b[:, :, None, :]
            state, found = drive[:, 0] * 0, []
            for place in range(length):
                state = decay[:, place] * state + drive[:, place]
                found.append((state * c[:, place, None, :]).sum(-1))
            y = t.stack(found, 1) + u * self.skip
            return x + self.out(y * functional.silu(gate))

    model = nn.Sequential(Block(), Block(), nn.Linear(width, 10))
    return classified(t, model, t.randn(8, length, width), of=lambda y: y.mean(1))


def language_model(t: Library, layers: int, width: int, heads: int, vocabulary: int, length: int) -> Any:
    """Return a model of GPT-2's form (Radford et al., 2019), which may be given keys and values of earlier places."""
    nn, functional = t.nn, t.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, past: Any) -> Any:
            batch, count = x.shape[:2]
            q, k, v = (
                each.reshape(batch, count, heads, -1).transpose(1, 2) for each in self.qkv(self.one(x)).chunk(3, -1)
            )
            if past is not None:
                k, v = t.cat((past[0], k), 2), t.cat((past[1], v), 2)
            found = functional.scaled_dot_product_attention(q, k, v, is_causal=past is None)
            x = x + self.out(found.transpose(1, 2).reshape(batch, count, width))
            return x + self.down(functional.gelu(self.up(self.two(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks, self.norm = nn.ModuleList([Block() for _ in range(layers)]), nn.LayerNorm(width)

        def forward(self, tokens: Any, past: Any = None) -> Any:
            before = 0 if past is None else past[0][0].shape[2]
            x = self.words(tokens) + self.places(t.arange(before, before + tokens.shape[1]))
            for number, block in enumerate(self.blocks):
                x = block(x, None if past is None else past[number])
            return self.norm(x) @ self.words.weight.T

    return Model()


def gpt2(t: Library) -> Job:
    """Return GPT-2 124M's forward pass over 128 places."""
    return inferred(t, language_model(t, 12, 768, 12, 50257, 1024), t.randint(0, 50257, (1, 128)))


def decoding(t: Library) -> Job:
    """Return one more word by GPT-2 124M after 128."""
    past = [tuple(t.randn(1, 12, 128, 64) for _ in range(2)) for _ in range(12)]
    return inferred(t, language_model(t, 12, 768, 12, 50257, 1024), t.randint(0, 50257, (1, 1)), past)


def small_gpt(t: Library) -> Job:
    """Return a step of a GPT that learns to write by letters."""
    model, tokens = language_model(t, 4, 128, 4, 65, 64), t.randint(0, 65, (16, 65))
    loss = t.nn.functional.cross_entropy
    return trained(t, model, lambda: loss(model(tokens[:, :-1]).reshape(-1, 65), tokens[:, 1:].reshape(-1)))


JOBS: dict[str, Callable[[Library], Job]] = {
    "MLP step": perceptron, "MNIST CNN step": digits, "LSTM step": recurrent, "Transformer step": encoder,
    "ResNet-18 step": resnet18, "ResNet-50 inference": resnet50, "MobileNetV3 inference": mobilenet,
    "kornia-like filters": filters, "rk4 solver step": solver, "GCN step": graph, "x-transformers-like step": rotary,
    "Mamba-like step": selective, "GPT-2 124M forward 1x128": gpt2, "GPT-2 124M decode": decoding,
    "small GPT step": small_gpt,
}  # fmt: skip
