"""Processes that do what the engine must not: run PyTorch, compilers, and candidates."""
