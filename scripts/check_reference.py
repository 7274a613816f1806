"""Refuses public names whose entry in the reference lacks a sentence, shapes or types, what is raised, or an example that runs.

The entries are those that the documentation shows. ``--list`` prints the counts of every namespace.
"""

from __future__ import annotations

import sys

sys.path.insert(0, "docs")

from generator.pages import PARTS, Pages
from generator.public_names import left_out
from generator.samples import Samples

#: how many may lack a part: less only
AT_MOST = dict.fromkeys(PARTS, 0)


def main(options: list[str]) -> int:
    """Print what is missing; the exit status tells whether something is."""
    samples = Samples()
    try:
        pages = Pages(samples)
    finally:
        samples.save()
    if "--list" in options:
        print("\n".join(f"{title}: {count} names" for title, count in pages.names.items()))
    for line in samples.failed:
        print(line)
    status = bool(samples.failed)
    for part, lacking in pages.missing.items():
        if len(lacking) > AT_MOST[part]:
            print("\n".join(f"{name}: no {part}" for name in lacking))
            status = True
    for name in left_out():
        print(f"{name} is listed by its module and stands in no namespace of the reference")
        status = True
    counts = ", ".join(f"{len(lacking)} without {part}" for part, lacking in pages.missing.items())
    print(f"{pages.names.total()} public names in the reference, {counts}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
