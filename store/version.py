"""Numbers that a reader must know without importing the schema (which costs 140 ms)."""

SESSION_SCHEMA = 3
MACHINE_SCHEMA = 2
