"""Numbers that a reader must know without importing the schema (which costs 140 ms)."""

SESSION_SCHEMA = 1
MACHINE_SCHEMA = 1
