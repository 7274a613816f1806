"""``webgpu-torch web``: the library as a site."""

from __future__ import annotations

import argparse
import json
import tempfile
import threading

from webgpu_torch_web.site.building import build
from webgpu_torch_web.site.serving import serving


def run_web(options: argparse.Namespace) -> int:
    """Build the site, and serve it until interrupted if asked to."""
    try:
        if options.action == "build":
            folder = str(build(options.folder, options.docs, options.model))
            said = f"The site is in {folder}. Browsers compute on pages from https and from localhost only."
            print(json.dumps({"folder": folder}) if options.json else said)
            return 0
        with (
            tempfile.TemporaryDirectory() as folder,
            serving(build(folder, options.docs, options.model), options.port) as address,
        ):
            said = f"Serving the playground at {address} – Ctrl+C ends it"
            print(json.dumps({"address": address}) if options.json else said, flush=True)
            threading.Event().wait()
    except (RuntimeError, FileNotFoundError) as error:
        raise SystemExit(str(error)) from error
    except OSError as error:
        raise SystemExit(f"port {options.port} cannot be served: {error}; another one: --port N") from error
    return 0
