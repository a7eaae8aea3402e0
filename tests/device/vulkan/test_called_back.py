"""An application's messenger in Python, called back in the middle of a call, while other threads make other calls."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent.parent

# The layer calls the messenger with locks held; other calls wait for those, and the messenger for the GIL.
CALLED_BACK = """
import threading, time
from etarena import vulkan
from etarena.device.vulkan.sync import Fence
from examples.vulkan_renderer.context import API, Context

inside = threading.Event()

class Listening(Context):
    def _listen(self, *said):
        inside.set()
        time.sleep(0.02)  # the other thread is in its call by then, if it can be
        return super()._listen(*said)

def record():
    recorded.begin()
    recorded.host_barrier()  # with a stage that the layer has advice about
    recorded.end()

with Listening(validation=True) as context, vulkan.Device.from_handles(
    instance=context.instance,
    physical_device=context.physical_device,
    device=context.device,
    queue=context.queue,
    queue_family_index=context.family,
    api_version=API,
    extensions=context.extensions,
    features=context.features,
) as device:
    recorded, other, fence, timeline = device.commands(), device.commands(), Fence(device.core), device.timeline()
    buffer, image = device.buffer(64, host_visible=True), device.image(4, 4, "rgba8")
    calls = {
        "begin": other.begin,
        "barrier": other.barrier,
        "end": other.end,
        "done": fence.done,
        "reset": fence.reset,
        "signal": lambda: timeline.signal(1),
        "value": lambda: timeline.value,
        "map": buffer.memory.map,
        "view": lambda: image.view,
        "requirements": lambda: buffer.requirements,
        "buffer": lambda: device.buffer(64).close(),
        "commands": lambda: device.commands().close(),
        "submit": lambda: device.submit_nothing().wait(),
    }
    for name, call in calls.items():
        inside.clear()
        thread = threading.Thread(target=record)
        thread.start()
        assert inside.wait(30), name
        print(name, end=" ", flush=True)
        call()
        thread.join()
    for thing in (recorded, other, fence, timeline, buffer, image):
        thing.close()
    del calls, buffer, call
assert context.messages == [], context.messages
print("done")
"""


def test_no_call_waits_with_the_gil_for_a_messenger_that_needs_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CALLED_BACK], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "begin barrier end done reset signal value map view requirements buffer commands submit done\n"
    )
