"""Numbers that a reader must know without importing the schema (which costs 140 ms)."""

SESSION_SCHEMA = 2
MACHINE_SCHEMA = 1
