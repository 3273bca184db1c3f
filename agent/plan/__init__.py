"""The plan of a program: its parts, how they are read, and how they become numbers."""
