"""Screens: watch, and the small ones over it."""
