"""The check without a runner: programs that are Python functions, on any device.

What the judge makes of values is the same; what needs a process of its own (crashes, time) is
tested elsewhere.
"""

from __future__ import annotations

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from agent import precise
from agent.judge.arena import Arena, Wanted
from agent.judge.cases import Cases, Refused
from agent.judge.check import Size, check
from agent.judge.inputs import FAMILIES
from agent.judge.tolerance import compare
from agent.task import ArgSpec, OutputSpec, TargetSpec
from agent.tensors import own_memory


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


class Target:
    """A reference made of a pure function; ``mutated`` arguments get its last results."""

    def __init__(self, pure, make, *, device="cpu", mutated=(), eager=None, kinds=None):
        self._pure, self._eager = pure, eager or pure
        self._make = make
        self._device = device
        args = self.sample(0)
        names = [f"x{at}" for at in range(len(args))]
        self._at = [names.index(name) for name in mutated]
        flat = make_fx(lambda *given: tuple(self._tuple(pure(*given))))(*args)
        self.graph = flat
        results = self._tuple(pure(*args))
        outputs = results[: len(results) - len(mutated)]
        self.spec = TargetSpec(
            name="target", device=device,
            args=tuple(
                ArgSpec(name, (kinds or {}).get(name, "input"), name_of(value.dtype),
                        tuple(value.shape), tuple(value.stride()), mutated=name in mutated)
                for name, value in zip(names, args, strict=True)
            ),
            scalars={},
            outputs=tuple(
                OutputSpec(f"out{at or ''}", name_of(value.dtype), tuple(value.shape),
                           tuple(value.stride()))
                for at, value in enumerate(outputs)
            ),
            read_bytes=1, write_bytes=1, flops=0, source_sha="0",
        )  # fmt: skip

    @staticmethod
    def _tuple(results):
        return results if isinstance(results, tuple) else (results,)

    def sample(self, seed):
        torch.manual_seed(seed)
        return [own_memory(value.to(self._device)) for value in self._make()]

    def function(self, *args):
        results = self._tuple(self._eager(*args))
        count = len(results) - len(self._at)
        for at, value in zip(self._at, results[count:], strict=True):
            args[at].copy_(value)
        return results[:count]

    def float64(self, args):
        return precise.evaluate(self.graph, args)


def size(target, program, *, label="", scratch=(), secret=3):
    """One size of a check; ``program(memory tensors by name)`` writes its results there."""
    cases = Cases(target, secret, label=label)
    wanted = [Wanted(name, "float32", (count,), (1,)) for name, count in scratch]
    spaces = {}

    def call(layout, slots):
        space = spaces["now"]
        program({name: space.tensor(slot) for name, slot in slots.items()})

    return Size(cases, wanted, call), spaces


def judged(*pairs):
    """The check of what :func:`size` gave."""
    sizes = [made for made, _ in pairs]
    device = sizes[0].cases.reference.spec.device

    def space(layout):
        arena = Arena(torch.zeros(layout.size, dtype=torch.uint8, device=device))
        for _, spaces in pairs:
            spaces["now"] = arena
        return arena

    return check(sizes, space)


def wrong_families(target, program, secret=3, families=FAMILIES):
    """The families on whose arguments a function of tensors answers wrongly."""
    cases = Cases(target, secret)
    wrong = []
    for family in families:
        try:
            case = cases.get(family, 0)
        except Refused:
            continue
        found = Target._tuple(program(*case.args))
        for value, known in zip(found, case.answers, strict=True):
            if not compare(value, known).ok:
                wrong.append(family)
                break
    return wrong
