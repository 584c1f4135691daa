"""Which of several ways to hook an event this kernel offers. Standard library only, as `btf`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bpf.btf import Types

# Ways whose arguments the verifier knows the types of: their programs may dereference them directly.
TYPED: Final = ("tp_btf", "fentry", "fexit")
KINDS: Final = (*TYPED, "raw_tp", "tracepoint", "kprobe")

# Kind, what it hooks (`category/name` for a tracepoint), and the C function with the matching context.
Variant = tuple[str, str, str]


def candidates(variants: Sequence[Variant], types: Types) -> list[Variant]:
    """The variants worth trying on this kernel, in the order given, which is the order of preference.

    A typed variant whose target no BTF describes would fail the load of its program, so it is left out; one
    whose target is described cannot be missed, so nothing after it is needed. Of the others only attaching
    tells.
    """
    found: list[Variant] = []
    for variant in variants:
        kind, target, _ = variant
        if kind not in TYPED:
            found.append(variant)
        elif _described(kind, target, types):
            return [*found, variant]
    return found


def typed(chosen: Sequence[Sequence[Variant]]) -> bool:
    """Whether an object can use plain dereferences everywhere: each of its hooks is sure to be typed.

    A program that reads through probe reads is valid under every kind of hook; so if only one hook is not
    typed, the whole object falls back to them.
    """
    return all(variants and variants[0][0] in TYPED for variants in chosen)


def _described(kind: str, target: str, types: Types) -> bool:
    if kind == "tp_btf":
        return types.tracepoint_home(target) is not None
    return types.has_function(target)
