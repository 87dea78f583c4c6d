#!/bin/sh
# Steps of docker/Dockerfile, typed where the repository is; what requirements.lock pins goes to /opt/ident:
#   docker/install.sh cpu|cuda   what the package needs, without it
#   docker/install.sh package    the package itself, to /package
# BACKEND is the index that uv takes PyTorch from: `cpu` has it without CUDA; none is PyPI, which has no such.
set -eu
what=$1
if [ -s /run/secrets/network ]; then
    set -a
    . /run/secrets/network
    set +a
fi
python3.11 -m venv /opt/ident
python=/opt/ident/bin/python
$python -m pip install --quiet --no-cache-dir uv==0.13.8
uv() { "/opt/ident/bin/uv" pip "$@" --quiet --python $python; }
# Nobody but root may write there: what is not compiled now is compiled by every process anew.
install="install --no-cache --compile-bytecode"

if [ "$what" = package ]; then
    uv $install --no-deps --prefix /package .
    exit
fi

pins=$(mktemp -d)
cp requirements.lock "$pins/lock"
set -- --constraint "$pins/lock" --requirement pyproject.toml --extra s3 --extra huggingface
if [ "$what" = cpu ]; then # FAISS for GPUs would bring CUDA along
    sed -i 's/^faiss-gpu==/faiss-cpu==/' "$pins/lock"
    echo "faiss-gpu; sys_platform == 'never'" > "$pins/override"
    set -- "$@" faiss-cpu --override "$pins/override" ${BACKEND:+"--torch-backend=$BACKEND"}
fi
# Ray's autoscaler starts machines on AWS by boto3.
uv $install "$@" boto3

# PyPI's PyTorch has CUDA. On a CPU it loads what it is linked with, and no more: the rest goes.
if [ "$what" = cpu ] && [ -d /opt/ident/lib/python3.11/site-packages/nvidia ]; then
    uv uninstall triton
    $python - << 'END'
import sysconfig
from pathlib import Path

import torch  # noqa: F401
import torchvision  # noqa: F401

loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
for path in Path(sysconfig.get_path("purelib"), "nvidia").rglob("*"):
    if path.is_file() and str(path) not in loaded:
        path.unlink()
END
fi
uv uninstall uv pip
rm -r "$pins"
