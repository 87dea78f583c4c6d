#!/bin/sh
# The system libraries that Blender's Python module loads, on Debian and Ubuntu. Needs root, or sudo.
set -eu
as_root=""
[ "$(id -u)" -eq 0 ] || as_root="sudo"
$as_root apt-get update -q
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    libx11-6 libxrender1 libxfixes3 libxi6 libxkbcommon0 libsm6 libice6 libxext6 libgl1 libegl1 libgomp1 libxxf86vm1
