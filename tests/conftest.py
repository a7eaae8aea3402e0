"""Settings shared by all tests."""

import gc
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Examples are compared with slow oracles on shared machines: a deadline would only measure the machine.
# The same examples on every run, so that a failure belongs to the change that was made; "make fuzz" looks for new ones.
settings.register_profile("default", deadline=None, max_examples=100, derandomize=True)
settings.register_profile("fuzz", deadline=None, max_examples=20_000)
settings.load_profile("default")

TESTS = Path(__file__).parent
# Files that take 15 s and more. They begin first, lest one be left at the end while the other worker has nothing to do.
LONG = {
    "delegates/test_delegate_tutorial.py",
    "delegates/test_shared_arena.py",
    "delegates/test_xnnpack_partition.py",
    "delegates/test_xnnpack_scratch.py",
    "delegates/vulkan/test_models.py",
    "delegates/vulkan/test_moves_exported.py",
    "etarena/static/test_static_programs.py",
    "etarena/test_caches.py",
    "etarena/test_cli.py",
    "etarena/test_demo_models.py",
    "etarena/test_export_control_flow.py",
    "etarena/test_huggingface.py",
    "etarena/test_resizing.py",
    "etarena/test_run_modules.py",
    "etarena/test_stages.py",
}


def turn(item: pytest.Item) -> int:
    """When a test's file begins: long ones and those of whole programs first, the ground floor's, all short, last."""
    file = item.path.relative_to(TESTS)
    if file.as_posix() in LONG or len(file.parts) == 1:
        return 0
    return 2 if file.parts[0] == "allocator" else 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order files; tests of one stay as they are."""
    items.sort(key=turn)


@pytest.fixture(autouse=True, scope="session")
def no_files_of_pipelines() -> Iterator[None]:
    """Tests neither read nor write what the user's own runs keep."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ETARENA_CACHE_DIR", "")
        yield


@pytest.fixture(autouse=True, scope="module")
def only_what_a_file_makes_is_walked_through() -> None:
    """Take what imports made and torch's caches keep out of the collector's sight: each full collection cost 0.2 s."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def exports_do_not_repeat_what_they_know() -> Iterator[None]:
    """Take from torch's decompositions what they do over and over to the same end: a quarter of an export's time.

    They ask the dispatcher for its operators once for each of 40 namespaces, though nothing can register one meanwhile,
    and evaluate an annotation 6000 times, which `typing` remembers and `collections.abc` does not.
    """
    import torch._export.utils as listing
    import torch._ops as operators
    from torch.export import decomp_utils, exported_program

    listed, look_up = listing._collect_all_valid_cia_ops, listing._materialize_cpp_cia_ops

    def listed_at_once() -> set[object]:
        look_up()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(listing, "_materialize_cpp_cia_ops", lambda: None)
            return listed()

    with pytest.MonkeyPatch.context() as patch:
        for module in (listing, decomp_utils, exported_program):
            patch.setattr(module, "_collect_all_valid_cia_ops", listed_at_once)
        patch.setattr(operators, "Callable", typing.Callable)
        yield
