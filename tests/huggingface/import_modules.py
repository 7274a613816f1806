"""Imports every module of a library and writes the reasons of those that cannot be imported.

python tests/huggingface/import_modules.py pytorch|ours LIBRARY FILE
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")


def main() -> None:
    """Import under the torch that the command line names, and write ``{module: reason, or "" if imported}``."""
    torch, library, target = sys.argv[1:]
    if torch == "ours":
        import webgpu_torch

        webgpu_torch.install_as_torch()
    package = importlib.import_module(library)
    found = {}
    names = [each.name for each in pkgutil.walk_packages(package.__path__, f"{library}.", onerror=lambda _: None)]
    for name in names:
        try:
            importlib.import_module(name)
            found[name] = ""
        except Exception as error:
            found[name] = (f"{type(error).__name__}: {error}".splitlines() or [""])[0]
    Path(target).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
