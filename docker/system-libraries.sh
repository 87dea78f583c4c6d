#!/bin/sh
# What Debian and Ubuntu lack for ident: the libraries that Blender's Python module loads, and Python's own venv.
# Needs root, or sudo. Other packages that are named come along.
set -eu
set -- "$@" libx11-6 libxrender1 libxfixes3 libxi6 libxxf86vm1 libxkbcommon0 libxext6 libsm6 libice6 libgl1 libegl1 libgomp1
python3.11 -c "import ensurepip" 2>/dev/null || set -- "$@" python3.11-venv
as_root=""
[ "$(id -u)" -eq 0 ] || as_root="sudo"
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" > /dev/null
