#!/bin/sh
# Installs the package from the folder where this is typed, with what requirements.lock pins: docker/install.sh VENV cpu|cuda
# Ray's autoscaler starts machines on AWS by boto3.
# PyTorch for CPUs comes without CUDA, which is two thirds of the whole. BACKEND is where uv takes PyTorch from instead.
set -eu
venv=$1
case ${BACKEND-$2} in
    "" | cuda) backend="" ;;
    *) backend="--torch-backend=${BACKEND-$2}" ;;
esac
python3.11 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --no-cache-dir uv==0.13.8
"$venv/bin/uv" pip install --quiet --no-cache --python "$venv/bin/python" --constraint requirements.lock \
    ${backend:+"$backend"} ".[s3,huggingface]" boto3
"$venv/bin/uv" pip uninstall --quiet --python "$venv/bin/python" uv pip
