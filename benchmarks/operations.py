"""Single operations next to PyTorch: bandwidth of element-wise operations, rows, and matrix products."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import webgpu_torch_core as torch
from common import device, peer, report, seconds, wait_ours
from webgpu_torch_core import functional as F
from webgpu_torch_core.record.devices import canonical_device, engine_for

SCALE = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
pytorch = peer()


COPIES = 5


def run(name, operation, inputs, amount, unit) -> None:
    """Time one operation on both sides: batches of calls over rotating inputs, submitted without waiting in between.

    Recording is lazy here: a batch reaches the GPU as one submit, as PyTorch's asynchronous launches reach it back to
    back. Every result of a batch is kept until it is submitted, and no two calls of a batch are the same work.
    """
    engine = engine_for(canonical_device(device()))
    mine = _time([each[0] for each in inputs], lambda *values: operation(torch, F, *values), engine.flush, wait_ours)
    theirs = None
    if pytorch is not None:
        peers = [each[1] for each in inputs]
        call = lambda *values: operation(pytorch, pytorch.nn.functional, *values)  # noqa: E731
        theirs = _time(peers, call, lambda: None, pytorch.cuda.synchronize)
    report(name, mine, theirs, amount, unit)


def _time(groups, operation, submit, wait) -> float:
    """Return the median seconds per call; ``groups`` are one list of copies per operand."""

    def batch() -> None:
        kept = [operation(*(group[number] for group in groups)) for number in range(COPIES)]
        submit()
        del kept

    return seconds(batch, wait, repeats=7, batch=8) / COPIES


def pair(*shape):
    """Return lists of random tensors here and there (None there without PyTorch)."""
    data = [torch.randn(*shape, device=device()) for _ in range(COPIES)]
    other = [pytorch.randn(*shape, device="cuda") for _ in range(COPIES)] if pytorch is not None else None
    return data, other


def elementwise() -> None:
    """relu, add and gelu over 256 MiB of float32."""
    count = int((1 << 26) * SCALE)
    x, y = pair(count), pair(count)
    gigabytes = count * 4 / 1e9
    run("relu 256 MiB", lambda t, f, x: t.relu(x), [x], 2 * gigabytes, "GB/s")
    run("add 256 MiB", lambda t, f, x, y: x + y, [x, y], 3 * gigabytes, "GB/s")
    run("gelu 256 MiB", lambda t, f, x: f.gelu(x), [x], 2 * gigabytes, "GB/s")


def rows() -> None:
    """Softmax, layer norm and sums of 8192 x 4096."""
    m, n = int(8192 * SCALE) or 1, 4096
    x, w, b = pair(m, n), pair(n), pair(n)
    gigabytes = m * n * 4 / 1e9
    run("softmax 8192x4096", lambda t, f, x: t.softmax(x, -1), [x], 2 * gigabytes, "GB/s")
    run("layer_norm 8192x4096", lambda t, f, x, w, b: f.layer_norm(x, (n,), w, b), [x, w, b], 2 * gigabytes, "GB/s")
    run("sum of all", lambda t, f, x: x.sum(), [x], gigabytes, "GB/s")
    run("sum of columns", lambda t, f, x: x.sum(0), [x], gigabytes, "GB/s")
    run("sum of rows", lambda t, f, x: x.sum(1), [x], gigabytes, "GB/s")


def positions(high: int, *shape):
    """Return lists of equal random positions below ``high`` here and there (None there without PyTorch)."""
    data = [torch.randint(0, high, shape, device=device()) for _ in range(COPIES)]
    other = [pytorch.tensor(each.tolist(), device="cuda") for each in data] if pytorch is not None else None
    return data, other


def indexing() -> None:
    """What a mask picks, and sums at positions: within rows, and of rows."""
    m, n, k = int(8192 * SCALE) or 1, 4096, int(65536 * SCALE) or 8
    x, w = pair(m, n), pair(k, 1024)
    gigabytes = m * n * 4 / 1e9
    run("x[x > 1] 8192x4096", lambda t, f, x: x[x > 1], [x], gigabytes, "GB/s")
    run("var of rows", lambda t, f, x: x.var(1), [x], gigabytes, "GB/s")
    run("argmax of rows", lambda t, f, x: x.argmax(1), [x], gigabytes, "GB/s")
    index = positions(m, k)
    add = lambda t, f, i, w: t.zeros((m, 1024), device=w.device).index_add(0, i, w)  # noqa: E731
    run("index_add 65536 rows of 1024", add, [index, w], k * 4096 / 1e9, "GB/s")


def products() -> None:
    """Matrix products, square, with eight rows and with one."""
    for small in (512, 1024):
        a, b = pair(small, small), pair(small, small)
        run(f"matmul {small}", lambda t, f, a, b: a @ b, [a, b], 2 * small**3 / 1e12, "TFLOP/s")
    m = int(16384 * SCALE) or 8
    v, w = pair(8, 4096), pair(m, 4096)
    run(f"8x4096 @ {m}x4096.T", lambda t, f, v, w: v @ w.t(), [v, w], m * 4096 * 4 / 1e9, "GB/s")
    n = int(4096 * SCALE**0.5) // 64 * 64 or 64
    a, b = pair(n, n), pair(n, n)
    run(f"matmul {n}", lambda t, f, a, b: a @ b, [a, b], 2 * n**3 / 1e12, "TFLOP/s")
    run(f"matmul {n} (b transposed)", lambda t, f, a, b: a @ b.t(), [a, b], 2 * n**3 / 1e12, "TFLOP/s")
    run(f"matmul {n} (a transposed)", lambda t, f, a, b: a.t() @ b, [a, b], 2 * n**3 / 1e12, "TFLOP/s")
    for k, m in ((768, 3072), (3072, 768), (768, 50257)):
        m = int(m * SCALE) or 8
        v, w, u = pair(1, k), pair(k, m), pair(m, k)
        run(f"1x{k} @ {k}x{m}", lambda t, f, v, w: v @ w, [v, w], k * m * 4 / 1e9, "GB/s")
        run(f"1x{k} @ {m}x{k}.T", lambda t, f, v, u: v @ u.t(), [v, u], k * m * 4 / 1e9, "GB/s")


def convolution() -> None:
    """The middle of an image network, and a depthwise convolution."""
    channels = int(320 * SCALE) or 4
    x, w = pair(2, channels, 64, 64), pair(channels, channels, 3, 3)
    flops = 2 * 2 * channels**2 * 9 * 64 * 64 / 1e12
    run("conv2d n2 c320 64x64 k3", lambda t, f, x, w: f.conv2d(x, w, padding=1), [x, w], flops, "TFLOP/s")
    images = int(32 * SCALE) or 1
    x, w = pair(images, 256, 56, 56), pair(256, 1, 3, 3)
    depthwise = lambda t, f, x, w: f.conv2d(x, w, padding=1, groups=256)  # noqa: E731
    run("conv2d n32 c256 56x56 k3 depthwise", depthwise, [x, w], 2 * images * 256 * 56 * 56 * 4 / 1e9, "GB/s")


def attention() -> None:
    """Scaled dot-product attention: whole, causal, and of one query whose heads share keys."""
    q, k, v = (pair(1, 16, 2048, 64) for _ in range(3))
    run("sdpa 1x16x2048x64", lambda t, f, *x: f.scaled_dot_product_attention(*x), [q, k, v], 17.2e-3, "TFLOP/s")
    q, k, v = (pair(1, 16, 4096, 128) for _ in range(3))
    causal = partial(_attend, is_causal=True)
    run("sdpa causal 1x16x4096x128", causal, [q, k, v], 68.7e-3, "TFLOP/s")
    q, k, v = pair(1, 32, 1, 128), pair(1, 8, 8192, 128), pair(1, 8, 8192, 128)
    run("sdpa q1 kv8192 h32/8", partial(_attend, enable_gqa=True), [q, k, v], 67.1e-3, "GB/s")


def _attend(t, f, q, k, v, **options):
    return f.scaled_dot_product_attention(q, k, v, **options)


if __name__ == "__main__":
    print(torch.webgpu.get_device_name() if device().startswith("webgpu") else device())
    elementwise()
    rows()
    indexing()
    products()
    convolution()
    attention()
