"""Settings shared by all tests."""

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
