"""Runs every generator and fails where a checked-in file would change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: generator script -> the files it writes
GENERATORS = {
    "scripts/generate_metadata.py": (
        "CITATION.cff",
        *(str(path) for name in ("pyproject.toml", "LICENSE") for path in Path("packages").glob(f"*/{name}")),
        "packages/webgpu-torch/README.md",
        "packages/core/src/webgpu_torch_core/__init__.py",
    ),
    "scripts/generate_types.py": tuple(map(str, Path("packages/core/src/webgpu_torch_core/api/typed").glob("*.py"))),
    "scripts/generate_compatibility.py": ("docs/compatibility.md",),
    "scripts/generate_names_page.py": ("docs/pytorch-names.md",),
    "scripts/generate_architectures.py": ("docs/huggingface-architectures.md",),
}


def main() -> int:
    """Return 1 and name the files that are stale."""
    stale = []
    for script, targets in GENERATORS.items():
        before = {target: Path(target).read_text() for target in targets if Path(target).exists()}
        subprocess.run([sys.executable, script], check=True)
        stale += [
            f"{target} was stale: run {script} and commit the result"
            for target in targets
            if Path(target).read_text() != before.get(target)
        ]
    print("\n".join(stale), end="\n" if stale else "")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
