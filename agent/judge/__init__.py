"""Decides whether a program is right, and how fast it is: inputs, tolerances, checks, timing."""
