"""``webgpu-torch web``: the library as a site."""

from __future__ import annotations

import argparse
import tempfile
import threading

from webgpu_torch_web.site.building import build
from webgpu_torch_web.site.serving import serving


def run_web(options: argparse.Namespace) -> int:
    """Build the site, and serve it until interrupted if asked to."""
    try:
        if options.action == "build":
            print(
                f"The site is in {build(options.folder)}. Browsers compute on pages from https and from localhost only."
            )
            return 0
        with tempfile.TemporaryDirectory() as folder, serving(build(folder), options.port) as address:
            print(f"Serving the playground at {address} – Ctrl+C ends it")
            threading.Event().wait()
    except RuntimeError as error:
        raise SystemExit(str(error)) from error
    except OSError as error:
        raise SystemExit(f"port {options.port} cannot be served: {error}; another one: --port N") from error
    return 0
