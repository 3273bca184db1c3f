"""What every writer of a language is told: the contract, the judge, what pays, and one example.

Each text is the same for every question of its language, so that providers cache it. All of it
must be what the code accepts and the judge does; tests parse and build the examples.
"""

from __future__ import annotations

from agent.writers.prompts.cpp import CPP
from agent.writers.prompts.cuda import CUDA

CONTRACT = {"cpp": CPP, "cuda": CUDA}
