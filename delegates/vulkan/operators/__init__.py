"""Operators of the delegate by family; `registry.all_operators` has them by name."""
