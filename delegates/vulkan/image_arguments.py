"""Arguments of a call that are images: where their numbers are as a tensor, and what must be converted for that.

In one run of a method each image is converted once, for the first delegate that reads it: the tensor lies in memory of
the device that nothing else uses until the run ends, and those behind read it there. What a delegate writes into an
image lies there too, with all digits, for those that read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from ...device.etensor import ETensor
from ...device.kinds import ResourceKind
from ..shared_run import current_run
from .bound import padded
from .images import record_image_to_tensor, record_tensor_to_image
from .places import image_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from weakref import WeakValueDictionary

    from ...device.vulkan.commands import Commands
    from ...device.vulkan.device import Device
    from ...device.vulkan.memory import Buffer
    from .recording import Spot

__all__ = ["ImageArguments", "Rooms"]

Rooms: TypeAlias = "WeakValueDictionary[Hashable, Buffer]"


@dataclass(frozen=True, slots=True)
class _Picture:
    """An argument that is an image."""

    tensor: ETensor
    name: Hashable  # which numbers of which image, in one run
    room: Buffer
    is_converted: bool  # by this call


class ImageArguments:
    """The images among the arguments of one call.

    Parameters
    ----------
    device
        Of the delegate.
    args, n_inputs
        The call's arguments, the inputs first.
    rooms
        Memory for the delegate's results, and for its inputs where no run is known; kept by the recordings that use
        it.
    """

    def __init__(self, device: Device, args: Sequence[Any], n_inputs: int, rooms: Rooms) -> None:
        self._device, self._n_inputs = device, n_inputs
        self._run, self._rooms = current_run(), rooms
        self._pictures: dict[int, _Picture] = {}
        for position, arg in enumerate(args):
            if is_image(arg):
                self._pictures[position] = self._picture(position, arg)

    def _picture(self, position: int, tensor: ETensor) -> _Picture:
        resource = tensor.resource
        details = resource.details
        name = id(self._device.core), resource.handle, details["format"], details["colour_space"], tensor.shape
        nbytes = padded(tensor.nbytes)
        if position >= self._n_inputs or self._run is None:
            return _Picture(tensor, name, self._room(self._rooms, (position, nbytes)), True)
        made = self._run.made | {picture.name: picture.room for picture in self._pictures.values()}
        if name in made:
            return _Picture(tensor, name, made[name], False)
        # The same memory for the first image of each run, whichever image that is, another for the second, and so on.
        rooms = (self._room(self._run.rooms, (id(self._device.core), number, nbytes)) for number in count())
        return _Picture(tensor, name, next(room for room in rooms if room not in made.values()), True)

    def _room(self, rooms: Rooms, key: tuple[int, ...]) -> Buffer:
        found = rooms.get(key)
        if found is None:
            found = rooms[key] = self._device.buffer(key[-1])
        return found

    def key_at(self, position: int) -> tuple[Any, ...]:
        """What commands for an argument depend on, beyond the argument; as long as they are kept."""
        picture = self._pictures.get(position)
        return () if picture is None else (id(picture.room), picture.is_converted)

    def spot_at(self, position: int) -> Spot | None:
        """Where the numbers of an argument are; None if it is no image."""
        picture = self._pictures.get(position)
        return None if picture is None else (picture.room, 0)

    def record_inputs(self, commands: Commands) -> None:
        """Record what makes tensors of images.

        Raises
        ------
        DeviceError
            An image of another device, extent, usage or layout than is needed.
        """
        self._record(commands, inward=True)

    def record_outputs(self, commands: Commands) -> None:
        """Record what makes images of tensors; raises as `record_inputs`."""
        self._record(commands, inward=False)

    def _record(self, commands: Commands, *, inward: bool) -> None:
        for position, picture in self._pictures.items():
            if (position < self._n_inputs) is not inward or not picture.is_converted:
                continue
            found = image_of(self._device, picture.tensor)
            assert found is not None
            image, colour_space = found
            more: dict[str, Any] = {"channels": picture.tensor.shape[1], "colour_space": colour_space}
            if inward:
                record_image_to_tensor(self._device, commands, image, picture.room, **more)
            else:
                record_tensor_to_image(self._device, commands, picture.room, 0, image, **more)

    def done(self) -> None:
        """Say that the commands have run."""
        if self._run is not None:
            self._run.made.update((picture.name, picture.room) for picture in self._pictures.values())


def is_image(arg: Any) -> bool:
    """Whether an argument is an image with texels."""
    return (
        isinstance(arg, ETensor)
        and not arg.device.is_cpu
        and arg.nbytes > 0
        and arg.resource.kind == ResourceKind.VK_IMAGE
    )
