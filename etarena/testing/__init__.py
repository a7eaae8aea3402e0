"""Conformance suites for authors: a pytest class to subclass, with one fixture to give."""
