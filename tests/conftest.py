"""Settings shared by all tests."""

from hypothesis import settings

# Examples are compared with slow oracles on shared machines: a deadline would only measure the machine.
settings.register_profile("default", deadline=None, max_examples=100)
settings.register_profile("fuzz", deadline=None, max_examples=20_000)
settings.load_profile("default")
