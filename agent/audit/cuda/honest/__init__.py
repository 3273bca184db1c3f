"""Right CUDA programs in many styles, each of which must pass."""

from __future__ import annotations

from agent.audit.cuda.honest.counts import COUNTS
from agent.audit.cuda.honest.elementwise import ELEMENTWISE
from agent.audit.cuda.honest.hopper import HOPPER
from agent.audit.cuda.honest.movement import MOVEMENT
from agent.audit.cuda.honest.norms import NORMS
from agent.audit.cuda.honest.products import PRODUCTS
from agent.audit.cuda.honest.softmaxes import SOFTMAXES
from agent.audit.cuda.honest.sums import SUMS

HONEST = [
    *ELEMENTWISE, *SOFTMAXES, *NORMS, *SUMS, *COUNTS, *PRODUCTS, *MOVEMENT, *HOPPER,
]  # fmt: skip
