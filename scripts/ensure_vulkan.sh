#!/usr/bin/env bash
# Makes sure that some Vulkan adapter exists: a real one, or Mesa's software renderer where it may be installed.
set -u
python="${1:-.venv/bin/python}"
found() {
  "$python" - <<'PY' >/dev/null 2>&1
import wgpu
import sys
adapters = [a for a in wgpu.gpu.enumerate_adapters_sync() if a.info["backend_type"] != "OpenGL"]
sys.exit(0 if adapters else 1)
PY
}
if found; then
  exit 0
fi
if command -v apt-get >/dev/null 2>&1; then
  run=""
  [ "$(id -u)" = 0 ] || run="sudo -n"
  if $run true 2>/dev/null; then
    echo "No Vulkan adapter found: installing Mesa's software renderer"
    $run apt-get update -qq >/dev/null 2>&1 && $run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq mesa-vulkan-drivers libvulkan1 >/dev/null 2>&1
    found && exit 0
  fi
fi
echo "No Vulkan adapter found; going on with the CPU backend. To use WebGPU install a Vulkan driver, for software"
echo "rendering on Debian: apt-get install mesa-vulkan-drivers libvulkan1"
