"""The section of `bench.propagation` says what its rows say."""

from bench.propagation import Row, section


def test_the_section_counts_what_differs() -> None:
    rows = [
        Row("good", values=10, boxes=3, shapes=100, worst=1.0, seconds=0.5, resident=1 << 20),
        Row("odd", values=20, differ=2, allocated=16, shapes=100, worst=0.98, seconds=1.5, resident=1 << 19),
        Row("large", values=9000, seconds=20.0, resident=1 << 20),
        Row("broken", failure="Error: no such thing"),
    ]
    text = section(rows)
    assert "Every value of 1 of 2 models" in text
    assert "no tensor was allocated for 2 of 3" in text
    assert "furthest off is 0.9800" in text
    assert "| large | 9000 |  | 0 B | 0 |  |  | 20.00 | 1.00 GiB |" in text
    assert "broken: Error: no such thing" in text
