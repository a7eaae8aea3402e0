"""Runs in the background, in a process and in its forked children."""

from etarena.background import RunQueue
from etarena.testing.forked import traced_in_child


def test_a_forked_child_has_a_thread_of_its_own_for_them() -> None:
    queue = RunQueue()
    assert queue.submit(lambda: [1]).wait(30) == [1]

    def work() -> None:
        assert queue.submit(lambda: [2]).wait() == [2]
        assert queue.submit(lambda: [3]).wait() == [3]

    assert traced_in_child(work, seconds=20) == (0, "")
    assert queue.submit(lambda: [4]).wait(30) == [4]
