"""Blender, as the Python module bpy: a scene in, arrays out. Nothing else imports bpy but the scene file's generator.

The scene file is opened once. An image is one or more exposures (see `settings`): each is a Cycles render of which
the linear float pixels are taken from Blender's memory as it ends, so that no file is written or read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.spatial import ConvexHull

from ident.render import temporary
from ident.render.aliases import Float32s, Uint8s
from ident.render.blender.boxes import Setup, Window, sun_directions
from ident.render.blender.denoise import Denoiser
from ident.render.blender.ground import GRID, Ground
from ident.render.blender.installed import absent
from ident.render.blender.settings import AREA, SUN, Exposure, Settings, check_passes
from ident.render.blender.silence import silent
from ident.render.children import environment
from ident.render.errors import Failed, Impossible
from ident.render.worlds.threedident import Scene


@contextlib.contextmanager
def _manners() -> Iterator[None]:
    """Start Blender without what it would do to the process.

    It shows this thread a single core, and gives the others back: Blender's thread pool counts the cores once, then
    and there, and its idle threads wait by spinning, so that engines would take cores from each other.
    An engine is one thread; more cores are more engines. And Blender's own modules, one of which is called bpy, go
    to the end of the path: in front they would hide the real one from a process that inherits the path. The folder
    that it makes for temporary files, and leaves behind where it is killed, is removed at once: nothing here uses it.
    """
    path = list(sys.path)
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
    if cores:
        os.sched_setaffinity(0, {min(cores)})
    try:
        with temporary.folder() as place, environment({"TMPDIR": str(place)}):
            yield
    finally:
        if cores:
            os.sched_setaffinity(0, cores)
        sys.path[:] = path + [folder for folder in sys.path if folder not in path]


try:
    with _manners(), silent(1, 2):
        import bpy
        import cycles
except ImportError as error:
    raise Impossible(absent(error)) from error


SCENE_FILE = Path(str(resources.files("ident.blend_assets").joinpath("3dident.blend")))
BACKENDS = ("OPTIX", "CUDA", "HIP", "ONEAPI")
"""What Cycles may offer for a GPU, the fastest first where a device has two."""

FROM_BLENDER: Mapping[str, tuple[str, Callable[[Float32s], npt.NDArray[Any]]]] = MappingProxyType(
    {
        "mask": ("IndexOB", lambda raw: np.rint(raw[..., 0]).astype(np.uint8)),
        "depth": ("Depth", lambda raw: raw[..., 0]),
        "normal": ("Normal", lambda raw: raw),
    }
)
"""Per pass, Blender's name for it and what is made of its channels (H, W, C).

mask (H, W) uint8: 0 background, 1 ground, 2 object. depth (H, W) float32: along the camera's axis, in metres.
normal (H, W, 3) float32: in world space. All are taken at the pixels' centres.
"""


def version() -> str:
    """Blender's version."""
    return str(bpy.app.version_string)


@dataclass(frozen=True)
class Gpu:
    """A device that Cycles can render on."""

    name: str
    backend: str


def gpus() -> tuple[Gpu, ...]:
    """The GPUs that Cycles sees, of the first backend that has any."""
    preferences = bpy.context.preferences.addons["cycles"].preferences
    for backend in BACKENDS:
        devices = [device for device in preferences.get_devices_for_type(backend) if device.type == backend]
        if devices:
            return tuple(Gpu(device.name, backend) for device in devices)
    return ()


def _use_gpus(count: int) -> None:
    """Let Cycles render on the first `count` GPUs and on nothing else."""
    seen = gpus()
    if len(seen) < count:
        names = ", ".join(gpu.name for gpu in seen) or f"none; looked for {', '.join(BACKENDS)}"
        raise Impossible(f"{count} GPUs asked for, Cycles sees {len(seen)} ({names}): give --gpus {len(seen)}")
    preferences = bpy.context.preferences.addons["cycles"].preferences
    preferences.compute_device_type = seen[0].backend
    left = count
    for device in preferences.get_devices_for_type(seen[0].backend):
        device.use = device.type == seen[0].backend and left > 0
        left -= device.use
    if not preferences.has_active_device():
        raise Failed(f"Cycles does not take the GPUs that it sees ({seen[0].name}): `ident doctor` says more")


def _open(blend: Path) -> None:
    """Open the scene file, after its checksum: Blender itself may crash on a damaged one."""
    try:
        digest = hashlib.sha256(blend.read_bytes()).hexdigest()
        wanted = blend.with_suffix(".sha256").read_text().split()[0]
    except (OSError, IndexError) as error:
        raise Failed(f"the scene file {blend} cannot be read ({error}): reinstall ident3d") from error
    if digest != wanted:
        raise Failed(f"the scene file {blend} is damaged (sha256 {digest}, not {wanted}): reinstall ident3d")
    with silent(1, 2):
        bpy.ops.wm.open_mainfile(filepath=str(blend), load_ui=False)


@dataclass
class Tap:
    """What Blender does not hand out of Cycles: a render's float pixels, and what it has loaded.

    Blender makes a session of Cycles for each render, which loads the scene anew. Here each kind of render (the same
    samples and size) has a session that stays; only what moved is loaded again. One session for all would not
    do: it keeps the highest number of samples that it ever took for the length of its noise pattern.
    """

    passes: dict[str, Float32s] = field(default_factory=dict)
    """By Blender's names, (H, W, C) with rows top down; every render fills them anew."""
    sessions: dict[Hashable, Any] = field(default_factory=dict)
    kind: Hashable = None
    """Of the next render."""

    def update(self, engine: Any, data: Any, depsgraph: Any) -> None:
        """Give the next render its session."""
        engine.session = self.sessions.get(self.kind)
        if engine.session is None:
            cycles.engine.create(engine, data)
            self.sessions[self.kind] = engine.session
        cycles.engine.reset(engine, data, depsgraph)

    def render(self, engine: Any, depsgraph: Any) -> None:
        """Render, and copy the pixels out: once a render is over, Python cannot see them."""
        cycles.engine.render(engine, depsgraph)
        result = engine.get_result()
        for taken in result.layers[0].passes:
            flat = np.empty(result.resolution_y * result.resolution_x * taken.channels, np.float32)
            taken.rect.foreach_get(flat)
            self.passes[taken.name] = flat.reshape(result.resolution_y, result.resolution_x, -1)[::-1]

    def free(self) -> None:
        """Free all sessions: they refer to the scene, and to Blender's engine, which are about to end."""
        for session in self.sessions.values():
            cycles.engine.free(SimpleNamespace(session=session))
        self.sessions.clear()


@cache
def _tap() -> Tap:
    """The tap, in the place of the methods that Blender calls."""
    tap = Tap()
    cycles.CyclesRender.update = lambda engine, data, depsgraph: tap.update(engine, data, depsgraph)
    cycles.CyclesRender.render = lambda engine, depsgraph: tap.render(engine, depsgraph)
    cycles.CyclesRender.__del__ = lambda _: tap.free()
    return tap


def to_srgb(linear: Float32s) -> Uint8s:
    """The image as seen: the sRGB curve on linear colour, rounded to 8 bits."""
    clipped = np.clip(linear, 0, 1)
    curved = np.where(clipped <= 0.0031308, 12.92 * clipped, 1.055 * clipped ** np.float32(1 / 2.4) - 0.055)
    return np.asarray(np.rint(255 * curved), dtype=np.uint8)


GROUND_SAMPLES = 16


class Engine:
    """Renders scenes by its settings, on one core or on the first GPUs.

    Blender holds one scene a process: an engine ends the one before it.
    """

    _latest: ClassVar[Engine | None] = None

    def __init__(self, settings: Settings, *, blend: Path = SCENE_FILE) -> None:
        if settings.gpus:
            _use_gpus(settings.gpus)
        self._tap = _tap()
        self._tap.free()
        _open(blend)
        Engine._latest = self
        size, self._quality = settings.size, settings.quality
        self._size = size
        self._placed, self._seen = 0, dict[Hashable, int]()
        self._denoise = Denoiser(size, size) if self._quality.denoise else None

        self._scene, objects = bpy.context.scene, bpy.data.objects
        self._object, self._ground, self._spotlight = (objects[name] for name in ("Object", "Ground", "Spotlight"))
        self._lights = {item.name: item.data for item in objects if item.type == "LIGHT"}
        self._energies = {name: light.energy for name, light in self._lights.items()}
        self._scene.cycles.device = "GPU" if settings.gpus else "CPU"
        render = self._scene.render
        render.threads_mode, render.threads = "FIXED", 1
        render.use_persistent_data = True

        vertices = np.array([vertex.co for vertex in self._object.data.vertices], dtype=np.float64)
        vertices *= np.array(self._object.scale)
        camera = self._scene.camera
        to_clip = camera.calc_matrix_camera(bpy.context.evaluated_depsgraph_get(), x=1, y=1)
        # Where light comes from: from around the z axis of a sun, and from between the corners of an area light.
        half = self._lights[AREA].size / 2
        corners = np.array([[x, y, 0.0, 1.0] for x in (-half, half) for y in (-half, half)])
        hulls = {SUN: sun_directions(self._lights[SUN].angle / 2), AREA: corners}
        cone = self._spotlight.data
        self._setup = Setup(
            size=size,
            camera=np.array(to_clip @ camera.matrix_world.inverted()),
            vertices=vertices,
            hull=vertices[ConvexHull(vertices).vertices],
            lights={name: hull @ np.array(objects[name].matrix_world).T for name, hull in hulls.items()},
            half_angle=cone.spot_size / 2,
            radius=cone.shadow_soft_size,
        )
        self._grounds = self._known_grounds() if self._quality.known_ground else {}

    def image(self, scene: Scene) -> Uint8s:
        """The image, (H, W, 3) uint8, the same for the same scene whatever was rendered before."""
        self._place(scene)
        linear: Float32s = np.zeros((self._size, self._size, 3), np.float32)
        for i, exposure in enumerate(self._quality.exposures):
            linear += self._expose(exposure, scene, seed=2 * i)
        return to_srgb(self._denoise(linear) if self._denoise else linear)

    def passes(self, scene: Scene, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
        """The passes asked for, by name; FROM_BLENDER says what each is."""
        names = check_passes(names)
        self._place(scene)
        layer, cycles_settings = self._scene.view_layers[0], self._scene.cycles
        width = cycles_settings.filter_width
        layer.use_pass_object_index = layer.use_pass_z = layer.use_pass_normal = True
        cycles_settings.filter_width = 0.01  # the least that Cycles takes: one sample, at the centre
        try:
            taken = self._render(lights=(), samples=1, seed=0, window=self._setup.whole)
            return {name: FROM_BLENDER[name][1](taken[FROM_BLENDER[name][0]]) for name in names}
        finally:
            cycles_settings.filter_width = width
            layer.use_pass_object_index = layer.use_pass_z = layer.use_pass_normal = False

    def _place(self, scene: Scene) -> None:
        if Engine._latest is not self:
            raise Failed("this engine ended when another was made: keep one a process")
        self._placed += 1
        self._object.location, self._object.rotation_euler = scene.object_location, scene.object_rotation
        self._object.color, self._ground.color = (*scene.object_color, 1.0), (*scene.ground_color, 1.0)
        self._spotlight.location, self._spotlight.data.color = scene.spotlight_location, scene.spotlight_color

    def _expose(self, exposure: Exposure, scene: Scene, seed: int) -> Float32s:
        """Linear colour under some of the lights, (H, W, 3): the mean of all samples that a pixel was given."""
        known = self._quality.known_ground
        colour: Float32s = np.zeros((self._size, self._size, 3), np.float32)
        counts: Float32s = np.zeros((self._size, self._size, 1), np.float32)
        for k, (window, samples) in enumerate((self._setup.changed if known else self._setup.lit)(exposure, scene)):
            if window and samples:
                part = slice(window.top, window.bottom), slice(window.left, window.right)
                taken = self._render(lights=exposure.lights, samples=samples, seed=seed + k, window=window)
                colour[part] += samples * taken["Combined"][..., :3]
                counts[part] += samples
        rendered = colour / np.maximum(counts, 1)
        if ground := self._grounds.get(exposure.lights[0]):
            rendered = np.where(counts > 0, rendered, ground.under(scene.ground_color))
        return np.asarray(rendered, np.float32)

    def _known_grounds(self) -> dict[str, Ground]:
        """The bare ground under each light that stands still, from renders of a black and of a white one."""
        grounds = {}
        self._object.hide_render = True
        for light in (SUN, AREA):
            renders = []
            for colour in (0.0, 1.0):
                self._ground.color = (colour, colour, colour, 1.0)
                window = Window(0, 0, GRID, GRID)
                taken = self._render(lights=(light,), samples=GROUND_SAMPLES, seed=0, window=window, size=GRID)
                renders.append(taken["Combined"][..., 0])
            grounds[light] = Ground(*renders, size=self._size)
        self._object.hide_render = False
        return grounds

    def _render(
        self, *, lights: Collection[str], samples: int, seed: int, window: Window, size: int | None = None
    ) -> dict[str, Float32s]:
        """One render of Cycles, of a window in an image of its own size or another; its passes by Blender's names."""
        render, cycles_settings, size = self._scene.render, self._scene.cycles, size or self._size
        render.resolution_x = render.resolution_y = size
        for name, light in self._lights.items():
            # Off is no energy, not hidden: then Blender would build its graph anew, and Cycles all that has not moved.
            energy = self._energies[name] if name in lights else 0.0
            if light.energy != energy:
                light.energy = energy
            light.update_tag()
        cycles_settings.samples, cycles_settings.seed = samples, seed
        render.use_border = render.use_crop_to_border = True
        # Blender cuts towards zero: half a pixel more lands inside the pixel that is meant. It counts rows upwards.
        render.border_min_x, render.border_max_x = ((edge + 0.5) / size for edge in (window.left, window.right))
        render.border_min_y = (size - window.bottom + 0.5) / size
        render.border_max_y = (size - window.top + 0.5) / size
        self._tap.passes.clear()
        self._tap.kind = kind = bool(lights), samples, size
        if self._seen.get(kind) != self._placed:  # else what has moved is told to the first session that asks
            self._seen[kind] = self._placed
            for item in (self._object, self._ground, self._spotlight):
                item.update_tag(refresh={"OBJECT"})
        with silent(1):
            try:
                bpy.ops.render.render()
            except RuntimeError as error:
                raise Failed(f"Blender could not render: {error}") from error
        if "Combined" not in self._tap.passes:
            raise Failed("Blender ended a render without an image")
        return dict(self._tap.passes)
