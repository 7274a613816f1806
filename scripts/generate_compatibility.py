"""Writes docs/compatibility.md: every operation with its kind, where it lives and how its gradient is made."""

from __future__ import annotations

from pathlib import Path

from webgpu_torch_core.ops import OPERATIONS

TARGET = Path("docs/compatibility.md")
NAMESPACES = {
    "torch": "torch", "functional": "torch.nn.functional", "linalg": "torch.linalg", "special": "torch.special", "fft": "torch.fft",
    "method": "torch.Tensor",
}  # fmt: skip


def row(operation: object) -> str:
    """Return one operation's table row."""
    name = f"{NAMESPACES[operation.namespace]}.{operation.name}"
    method = "yes" if operation.method else ""
    in_place = operation.in_place or ""
    aliases = ", ".join(operation.aliases)
    return f"| `{name}` | {operation.kind} | {method} | {in_place} | {aliases} |"


def main() -> None:
    """Write the page."""
    shown = sorted(
        (each for each in OPERATIONS.values() if each.namespace in NAMESPACES),
        key=lambda each: (each.namespace, each.name),
    )
    text = (
        "# Compatibility\n\n"
        f"{len(shown)} operations are declared. Every one runs on the `cpu`, `webgpu` and `python` devices; the tests compare\n"
        "each with PyTorch. This page is generated from the registry.\n\n"
        "| operation | kind | method | in place | aliases |\n| --- | --- | --- | --- | --- |\n"
    )
    TARGET.write_text(text + "\n".join(row(each) for each in shown) + "\n")


if __name__ == "__main__":
    main()
