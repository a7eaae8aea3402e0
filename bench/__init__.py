"""Measurements: `make bench` runs them, `python -m bench.results` writes RESULTS.md from what they found.

Run times are only ever compared side by side: the same process, the same input, call by call in turn.
"""
