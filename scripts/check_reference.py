"""Refuses public names whose entry in the reference has no sentence."""

from __future__ import annotations

import sys

sys.path.insert(0, "docs")

from generator.public_names import NAMESPACES, entries


def counted() -> tuple[int, list[str]]:
    """Return how many public names there are, and those without a sentence."""
    names, missing = 0, list[str]()
    for namespace in NAMESPACES:
        for module in namespace.modules:
            for each in entries(module):
                names += 1 + len(each.more)
                if not each.sentence().endswith((".", ":")):
                    missing.append(each.full_name)
    return names, missing


def main() -> int:
    """Print what is missing; the exit status tells whether something is."""
    names, missing = counted()
    for name in missing:
        print(f"{name}: its docstring should begin with a sentence")
    print(f"{names} public names in the reference, {len(missing)} without a sentence")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
