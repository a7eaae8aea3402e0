"""What is drawn: meshes, and where everything is at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["OBJECTS", "OCCLUDERS", "PERIOD", "SCENE_BYTES", "Mesh", "meshes", "scene_bytes"]

PERIOD = 6.0  # seconds after which everything is where it was
OBJECTS, OCCLUDERS = 16, 8  # as in scene.glsl
SCENE_BYTES = 4 * (2 * 16 + 4 * 4 + OCCLUDERS * 4 + OBJECTS * 24)

Floats = NDArray[np.float32]
Matrix = NDArray[np.float64]

LIGHT = np.array([-0.66, 0.6, 0.3])
PALETTE = [(0.75, 0.16, 0.1), (0.1, 0.42, 0.6), (0.85, 0.55, 0.1), (0.16, 0.5, 0.25), (0.5, 0.2, 0.55)]


@dataclass(frozen=True)
class Mesh:
    """Triangles: vertices of position and normal (n, 6), and three indices for each."""

    vertices: Floats
    indices: NDArray[np.uint32]


def tube(path: Matrix, radius: float, sides: int) -> Mesh:
    """A closed tube around a closed path (n, 3)."""
    forward = np.roll(path, -1, 0) - np.roll(path, 1, 0)
    forward /= np.linalg.norm(forward, axis=1, keepdims=True)
    bend = np.roll(path, -1, 0) + np.roll(path, 1, 0) - 2 * path
    across = np.cross(forward, bend)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    outward = np.cross(across, forward)
    angle = np.arange(sides) * 2 * math.pi / sides
    normal = (
        np.cos(angle)[None, :, None] * outward[:, None] + np.sin(angle)[None, :, None] * across[:, None]
    )  # (n, sides, 3)
    position = path[:, None] + radius * normal
    return grid(position, normal, closed=True)


def grid(position: Matrix, normal: Matrix, *, closed: bool) -> Mesh:
    """Triangles between the points of a grid (rows, columns, 3), in both directions around if it is closed."""
    rows, columns = position.shape[:2]
    row, column = np.meshgrid(
        np.arange(rows if closed else rows - 1), np.arange(columns if closed else columns - 1), indexing="ij"
    )
    corners = [(row + i) % rows * columns + (column + j) % columns for i, j in ((0, 0), (1, 0), (1, 1), (0, 1))]
    a, b, c, d = (corner.ravel() for corner in corners)
    vertices = np.concatenate([position, normal], axis=2).reshape(-1, 6)
    return outward(vertices, np.stack([a, b, c, a, c, d], axis=1).reshape(-1, 3))


def outward(vertices: Matrix, triangles: NDArray[np.int64]) -> Mesh:
    """Turn triangles so that they go around counter-clockwise, seen from where their normals point."""
    corners = vertices[triangles]
    face = np.cross(corners[:, 1, :3] - corners[:, 0, :3], corners[:, 2, :3] - corners[:, 0, :3])
    wrong = np.einsum("ij,ij->i", face, corners[:, :, 3:].sum(axis=1)) < 0
    triangles[wrong] = triangles[wrong][:, ::-1]
    return Mesh(vertices.astype(np.float32), triangles.astype(np.uint32).ravel())


def knot(turns: int = 2, twists: int = 3, points: int = 240) -> Mesh:
    """A torus knot of about the unit sphere's size."""
    t = np.arange(points) * 2 * math.pi / points
    ring = 0.62 + 0.24 * np.cos(twists * t)
    path = np.stack([ring * np.cos(turns * t), 0.3 * np.sin(twists * t), ring * np.sin(turns * t)], axis=1)
    return tube(path, 0.14, 20)


def ring() -> Mesh:
    """A torus around the z axis."""
    t = np.arange(72) * 2 * math.pi / 72
    return tube(np.stack([0.7 * np.cos(t), 0.7 * np.sin(t), 0 * t], axis=1), 0.28, 24)


def sphere(rows: int = 32, columns: int = 64) -> Mesh:
    """The unit sphere."""
    up, around = np.meshgrid(
        np.linspace(1e-3, math.pi - 1e-3, rows), np.linspace(0, 2 * math.pi, columns), indexing="ij"
    )
    points = np.stack([np.sin(up) * np.cos(around), np.cos(up), np.sin(up) * np.sin(around)], axis=2)
    return grid(points, points, closed=False)


def rounded_cube(steps: int = 14, edge: float = 0.18) -> Mesh:
    """A cube with round edges, within the unit sphere."""
    side = np.linspace(-1, 1, steps)
    u, v = np.meshgrid(side, side, indexing="ij")
    parts = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            flat = np.stack([np.full_like(u, sign), u, v], axis=2)
            flat = np.roll(flat, axis, axis=2)
            core = np.clip(flat, -1 + edge, 1 - edge)
            normal = flat - core
            normal /= np.linalg.norm(normal, axis=2, keepdims=True)
            parts.append(grid(0.6 * (core + edge * normal), normal, closed=False))
    return joined(parts)


def joined(parts: list[Mesh]) -> Mesh:
    """Several meshes as one."""
    first = np.cumsum([0] + [len(part.vertices) for part in parts[:-1]])
    return Mesh(
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.indices + np.uint32(start) for part, start in zip(parts, first, strict=True)]),
    )


def square() -> Mesh:
    """Corners at -1 and 1 in x and y."""
    corners = np.array([[x, y, 0, 0, 0, 1] for y in (-1, 1) for x in (-1, 1)], dtype=np.float64)
    return outward(corners, np.array([[0, 1, 2], [2, 1, 3]]))


def meshes() -> dict[str, Mesh]:
    """All meshes by name."""
    return {
        "square": square(),
        "knot": knot(),
        "ring": ring(),
        "sphere": sphere(),
        "cube": rounded_cube(),
    }


def turn(axis: int, angle: float) -> Matrix:
    """Rotation around a coordinate axis."""
    out = np.eye(4)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    out[i, i] = out[j, j] = math.cos(angle)
    out[j, i], out[i, j] = math.sin(angle), -math.sin(angle)
    return out


def shift(x: float, y: float, z: float) -> Matrix:
    """Translation."""
    out = np.eye(4)
    out[:3, 3] = x, y, z
    return out


def scale(x: float, y: float, z: float) -> Matrix:
    """Scaling along the axes."""
    return np.diag([x, y, z, 1.0])


def look_at(eye: Matrix, centre: Matrix) -> Matrix:
    """World to camera: x right, y up, looking along -z."""
    back = (eye - centre) / np.linalg.norm(eye - centre)
    right = np.cross([0.0, 1.0, 0.0], back)
    right /= np.linalg.norm(right)
    rotation = np.eye(4)
    rotation[:3, :3] = right, np.cross(back, right), back
    return rotation @ shift(*-eye)


def perspective(height_angle: float, aspect: float, near: float, far: float) -> Matrix:
    """Camera to Vulkan's clip space: y down, depth from 0 to 1."""
    f = 1 / math.tan(height_angle / 2)
    depth = far / (near - far)
    return np.array([[f / aspect, 0, 0, 0], [0, -f, 0, 0], [0, 0, depth, near * depth], [0, 0, -1, 0]])


def things(time: float, aspect: float) -> list[tuple[str, Matrix, tuple[float, ...], tuple[float, float]]]:
    """Mesh, place, colour with metalness, and stripes with sharpness of each object; the ground and screen first."""
    phase = 2 * math.pi * time / PERIOD
    out: list[tuple[str, Matrix, tuple[float, ...], tuple[float, float]]] = [
        ("square", scale(60, 1, 60) @ turn(0, -math.pi / 2), (0, 0, 0, 0), (0, 1)),
        ("square", shift(0, 1.75, -3.4) @ scale(1.35 * aspect, 1.35, 1), (0, 0, 0, 0), (0, 1)),
        (
            "knot",
            shift(0, 1.05 + 0.08 * math.sin(2 * phase), 0) @ turn(1, phase) @ turn(0, 0.5 + phase),
            (0.95, 0.62, 0.24, 1.0),
            (0, 90),
        ),
    ]
    for i, colour in enumerate(PALETTE):
        angle = phase + 2 * math.pi * i / len(PALETTE)
        mesh = ("sphere", "cube", "ring")[i % 3]
        high = 0.62 + 0.22 * abs(math.sin(2 * phase + 1.9 * i))
        spin = turn(1, 2 * phase + i) @ turn(0, 0.6 + phase)
        place = shift(2.3 * math.cos(angle), high, 1.7 * math.sin(angle)) @ spin @ scale(0.55, 0.55, 0.55)
        out.append((mesh, place, (*colour, 0.0), (9.0 if mesh == "sphere" else 0.0, 50.0)))
    return out


def scene_bytes(
    time: float, aspect: float, *, seed: int, screen: tuple[float, float, float], one_ray: bool
) -> tuple[bytes, list[str]]:
    """Fill the block ``Scene`` of scene.glsl for a time in seconds; gives also the mesh of each object.

    Parameters
    ----------
    time
        Seconds.
    aspect
        Width / height of the picture.
    seed
        Of the noise.
    screen
        Brightness, 1 if its texels are sRGB-encoded, width / height of what it shows.
    one_ray
        Shadows by one random ray per texel, as a path tracer makes them.
    """
    phase = 2 * math.pi * time / PERIOD
    eye = np.array([1.6 * math.sin(phase), 1.75 + 0.2 * math.cos(phase), 6.2])
    view = look_at(eye, np.array([0.0, 0.95, 0.0]))
    projection = perspective(math.radians(42), aspect, 0.1, 100)
    no_shift = view.copy()
    no_shift[:3, 3] = 0
    drawn = things(time, screen[2])
    light = LIGHT / np.linalg.norm(LIGHT)
    occluders = np.zeros((OCCLUDERS, 4))
    occluders[:, 1] = -100
    objects = np.zeros((OBJECTS, 24))
    for i, (mesh, place, colour, pattern) in enumerate(drawn):
        objects[i] = [*place.T.ravel(), *colour, *pattern, 0, 0]
        if mesh != "square":  # the number of the occluder is that of the object
            occluders[i] = [*place[:3, 3], 0.95 * np.linalg.norm(place[:3, 0])]
    head = [
        *(projection @ view).T.ravel(), *np.linalg.inv(projection @ no_shift).T.ravel(), *eye, float(seed % 65536),
        *light, math.radians(4.5), *screen, 0.0, float(one_ray), 0.0, 0.0, 0.0,
    ]  # fmt: skip
    data = np.concatenate([head, occluders.ravel(), objects.ravel()]).astype(np.float32).tobytes()
    return data, [mesh for mesh, *_ in drawn]
