"""OpenImageDenoise, called directly: the library that Blender ships, without Blender's detour.

One filter is kept for all images of a size. It sees linear colour and no guides: albedo and normals make these
images worse. What it smooths away too much is given back: see `restore`.
"""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from ident.render.aliases import Float32s
from ident.render.blender.installed import absent
from ident.render.errors import Failed, Impossible

CPU, FLOAT3 = 1, 3  # OIDNDeviceType, OIDNFormat


@cache
def library() -> ctypes.CDLL:
    """The shared library beside bpy, with the signatures of the calls below."""
    spec = importlib.util.find_spec("bpy")
    if spec is None or spec.origin is None:
        raise Impossible(absent() or "the denoiser comes with bpy, which is not found")
    libraries = sorted(Path(spec.origin).parent.glob("**/*OpenImageDenoise.*"), key=lambda path: len(path.name))
    if not libraries:
        raise Failed(f"no OpenImageDenoise library in {Path(spec.origin).parent}: reinstall bpy")
    loaded = ctypes.CDLL(str(libraries[0]))
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    for name, result, *arguments in (
        ("NewDevice", pointer, ctypes.c_int),
        ("SetDeviceInt", None, pointer, text, ctypes.c_int),
        ("SetDeviceBool", None, pointer, text, ctypes.c_bool),
        ("CommitDevice", None, pointer),
        ("ReleaseDevice", None, pointer),
        ("GetDeviceError", ctypes.c_int, pointer, ctypes.POINTER(text)),
        ("NewFilter", pointer, pointer, text),
        ("SetSharedFilterImage", None, pointer, text, pointer, ctypes.c_int, size, size, size, size, size),
        ("SetFilterBool", None, pointer, text, ctypes.c_bool),
        ("CommitFilter", None, pointer),
        ("ExecuteFilter", None, pointer),
        ("ReleaseFilter", None, pointer),
    ):
        call = getattr(loaded, f"oidn{name}")
        call.restype, call.argtypes = result, arguments
    return loaded


def restore(denoised: Float32s, noisy: Float32s, sigma: float = 2.5) -> Float32s:
    """The denoised image, brought back to the noisy one's mean around every pixel.

    Noise averages out over a few pixels, so there the noisy image is right and the filter's blur and its loss of
    light are not: both images (height, width, 3) are blurred by `sigma` pixels, and their ratio is the correction.
    """
    blurred, truth = (gaussian_filter(image, (sigma, sigma, 0)) for image in (denoised, noisy))
    return np.asarray(denoised * (truth / np.maximum(blurred, 1e-4)), dtype=np.float32)


class Denoiser:
    """A filter for linear images (height, width, 3) of one size."""

    def __init__(self, height: int, width: int) -> None:
        self._call = library()
        self._in: Float32s = np.zeros((height, width, 3), np.float32)
        self._out: Float32s = np.zeros_like(self._in)
        self._device = self._call.oidnNewDevice(CPU)
        self._call.oidnSetDeviceInt(self._device, b"numThreads", 1)
        self._call.oidnSetDeviceBool(self._device, b"setAffinity", False)  # or all processes share one core
        self._call.oidnCommitDevice(self._device)
        self._filter = self._call.oidnNewFilter(self._device, b"RT")
        for name, pixels in ((b"color", self._in), (b"output", self._out)):
            shape: tuple[Any, ...] = (FLOAT3, width, height, 0, 0, 0)
            self._call.oidnSetSharedFilterImage(self._filter, name, pixels.ctypes.data, *shape)
        self._call.oidnSetFilterBool(self._filter, b"hdr", True)
        self._call.oidnCommitFilter(self._filter)
        self._check()

    def __call__(self, linear: Float32s) -> Float32s:
        """The image without its noise."""
        self._in[:] = linear
        self._call.oidnExecuteFilter(self._filter)
        self._check()
        return restore(self._out, linear)

    def _check(self) -> None:
        message = ctypes.c_char_p()
        if self._call.oidnGetDeviceError(self._device, ctypes.byref(message)):
            raise Failed(f"OpenImageDenoise: {(message.value or b'unknown error').decode()}")

    def __del__(self) -> None:
        if hasattr(self, "_filter"):
            self._call.oidnReleaseFilter(self._filter)
            self._call.oidnReleaseDevice(self._device)
