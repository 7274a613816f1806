"""Let the benchmark page measure this machine, and keep what it found among the devices that the page plots.

    python benchmarks/browser/record.py "SwiftShader, 2 cores" [--gpu] [--to FILE]

Needs Chromium and Node.js. A device of the same name is measured anew. What a visitor downloads from the page has the same rows.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from driving import finished, opened
from webgpu_torch_web.site.building import build

DEVICES = Path(__file__).parents[2] / "packages/web/src/webgpu_torch_web/site/static/devices.json"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="what the page calls the device")
    parser.add_argument("--gpu", action="store_true", help="on the graphics card, not on the software adapter")
    parser.add_argument("--to", type=Path, default=DEVICES, help="the file of devices")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        build(scratch)
        with opened(scratch, "benchmark.html", given.gpu) as page:
            found = finished(page)
    devices = [each for each in json.loads(given.to.read_text(encoding="utf-8")) if each["name"] != given.name]
    rows = [
        {"name": each["name"], "rate": float(f"{each['rate']:.4g}"), "unit": each["unit"]} for each in found["rows"]
    ]
    devices.append({"name": given.name, "date": found["date"], "rows": rows})
    given.to.write_text(json.dumps(devices, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
