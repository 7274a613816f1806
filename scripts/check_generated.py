"""Runs every generator and fails where a checked-in file would change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: generator script -> the file it writes
GENERATORS = {
    "scripts/generate_facade.py": "packages/webgpu-torch/src/webgpu_torch/__init__.py",
    "scripts/generate_compatibility.py": "docs/compatibility.md",
}


def main() -> int:
    """Return 1 and name the files that are stale."""
    stale = []
    for script, target in GENERATORS.items():
        before = Path(target).read_text() if Path(target).exists() else ""
        subprocess.run([sys.executable, script], check=True)
        if Path(target).read_text() != before:
            stale.append(f"{target} was stale: run {script} and commit the result")
    print("\n".join(stale), end="\n" if stale else "")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
