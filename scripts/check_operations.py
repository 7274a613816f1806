"""Counts declarations per operation: each must have exactly one place."""

from __future__ import annotations

import sys

from webgpu_torch_core.operations import OPERATIONS


def main() -> int:
    """Print the number of operations; declaring one twice already fails at import."""
    names = [name for each in OPERATIONS.values() for name in (f"{each.namespace}.{each.name}",)]
    print(f"{len(names)} operations, each declared once")
    return 0 if len(names) == len(set(names)) else 1


if __name__ == "__main__":
    sys.exit(main())
