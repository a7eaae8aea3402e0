"""Settings shared by all tests."""

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Examples are compared with slow oracles on shared machines: a deadline would only measure the machine.
# The same examples on every run, so that a failure belongs to the change that was made; "make fuzz" looks for new ones.
settings.register_profile("default", deadline=None, max_examples=100, derandomize=True)
settings.register_profile("fuzz", deadline=None, max_examples=20_000)
settings.load_profile("default")


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
def operators_are_looked_up_once_a_listing() -> Iterator[None]:
    """Let torch's decompositions ask the dispatcher once for all namespaces: it answers each of 40 of them the same.

    A fifth of the time of an export is this. Nothing can register an operator while one listing is made.
    """
    import torch._export.utils as listing
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
        yield
