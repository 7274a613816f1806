"""Writes the schemas of PyTorch's operations that ``torch.ops.aten`` knows of.

Needs the PyTorch that the tests compare with. Overloads that write into ``out`` are left out, and those of TorchScript's own
types. Of one name those with more tensors come first, then those with fewer arguments: a call is the first that it fits.
"""

from __future__ import annotations

import lzma
from pathlib import Path

TARGET = Path("packages/webgpu-torch/src/webgpu_torch/_ops/schemas.xz")


def schemas() -> list[str]:
    """Return the schemas as PyTorch prints them, without their namespace."""
    import torch

    dispatched = set(torch._C._dispatch_get_all_op_names())
    found = []
    for each in torch._C._jit_get_all_schemas():
        name = f"{each.name}.{each.overload_name}" if each.overload_name else each.name
        written = any(argument.is_out for argument in each.arguments)
        if each.name.startswith("aten::") and name in dispatched and not written:
            tensors = sum("Tensor" in str(argument.type) for argument in each.arguments)
            found.append(((each.name, -tensors, len(each.arguments), name), str(each).removeprefix("aten::")))
    return [text for _, text in sorted(set(found))]


def main() -> None:
    """Write the file."""
    import torch

    text = "\n".join([torch.__version__.partition("+")[0], *schemas()])
    TARGET.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
