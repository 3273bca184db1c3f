"""Sessions in SQLite: what the engine writes and every viewer reads.

A session is one file. The engine is its only writer of results; viewers write nothing but rows
of ``commands``. Everything the screen shows can be rebuilt from ``events`` (see ``store.rebuild``).
Units: integer nanoseconds, bytes, micro-dollars; times of day are UTC microseconds.
"""

VERSION = "0.1.0"
