"""Every way data take: upload, kernels of each form, and reads of all sizes, blocking inside of Python."""

import struct

import webgpu_torch as torch

assert torch.get_default_device().type == "webgpu"
x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
assert (x * 2 + 1).tolist() == [[2.0 * (4 * i + j) + 1 for j in range(4)] for i in range(3)]
assert x.t().sum(0).tolist() == [6.0, 22.0, 38.0]
assert (x @ x.t()).tolist()[0] == [14.0, 38.0, 62.0]
assert x.softmax(-1).sum().item() - 3 < 1e-5
assert x.flip(0).sort(0).values.tolist() == x.tolist()
assert x.cumsum(1)[:, -1].tolist() == [6.0, 22.0, 38.0]
assert torch.zeros(4, dtype=torch.float32).scatter_add(0, torch.tensor([1, 1, 3]), torch.ones(3)).tolist() == [
    0,
    2,
    0,
    1,
]
assert bool((x > 10).any()) and f"{x[0, 1].item():.1f}" == "1.0" and "device='webgpu:0'" in repr(x)

# Numbers of every width: bytes and halves are packed, 64 bits emulated.
assert (torch.arange(4) * 2**40 - 1).tolist() == [-1, 2**40 - 1, 2**41 - 1, 3 * 2**40 - 1]
assert (torch.tensor([7, -7]) // 2).tolist() == [3, -4]
assert (torch.tensor([1.5, -2.25], dtype=torch.float16) * 2).tolist() == [3.0, -4.5]
assert (torch.tensor([1.5, -2.0], dtype=torch.bfloat16) + 1).tolist() == [2.5, -1.0]
assert (torch.tensor([250, 6, 7], dtype=torch.uint8) + 10).tolist() == [4, 16, 17]
assert (~torch.tensor([True, False, True])).tolist() == [False, True, False]
assert torch.tensor([1 + 2j, 3j]).conj().tolist() == [1 - 2j, -3j]

# Lengths that are no multiple of four.
odd = torch.arange(7, dtype=torch.uint8)
assert bytes(odd.untyped_storage()) == bytes(range(7)), bytes(odd.untyped_storage())
assert struct.unpack("<f", bytes(torch.tensor([0.5]).untyped_storage())) == (0.5,)
