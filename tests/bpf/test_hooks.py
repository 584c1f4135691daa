"""The choice of a hook on kernels that have it, half have it, or do not."""

import pytest

from bpf.hooks import Variant, candidates, typed


class FakeTypes:
    def __init__(self, tracepoints: dict[str, str] | None = None, functions: tuple[str, ...] = ()) -> None:
        self.tracepoints = tracepoints or {}
        self.functions = functions

    def tracepoint_home(self, name: str) -> str | None:
        return self.tracepoints.get(name)

    def has_function(self, name: str) -> bool:
        return name in self.functions

    def enum_value(self, enum: str, name: str) -> int | None:
        raise AssertionError("not asked here")


TP_BTF: Variant = ("tp_btf", "ev", "ev")
RAW: Variant = ("raw_tp", "ev", "ev")
CLASSIC: Variant = ("tracepoint", "cat/ev", "ev_classic")
FENTRY: Variant = ("fentry", "do_ev", "ev_fentry")
KPROBE: Variant = ("kprobe", "do_ev", "ev_kprobe")
ALL = (TP_BTF, RAW, CLASSIC, FENTRY, KPROBE)


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (FakeTypes({"ev": "vmlinux"}, ("do_ev",)), [TP_BTF]),
        (FakeTypes({"ev": "ext4"}), [TP_BTF]),
        (FakeTypes({"other": "vmlinux"}, ("do_ev",)), [RAW, CLASSIC, FENTRY]),
        (FakeTypes(), [RAW, CLASSIC, KPROBE]),
    ],
    ids=["in vmlinux", "in a module", "only the function", "nothing described"],
)
def test_what_is_worth_trying(types: FakeTypes, expected: list[Variant]) -> None:
    assert candidates(ALL, types) == expected


def test_the_order_given_is_kept() -> None:
    types = FakeTypes({"ev": "vmlinux"}, ("do_ev",))
    assert candidates((FENTRY, TP_BTF), types) == [FENTRY]
    assert candidates((KPROBE, TP_BTF), types) == [KPROBE, TP_BTF]


def test_nothing_is_left_where_only_a_typed_way_was_known() -> None:
    assert candidates((TP_BTF,), FakeTypes()) == []


def test_an_object_is_typed_when_all_its_hooks_are() -> None:
    assert typed([[TP_BTF], [FENTRY]])
    assert not typed([[TP_BTF], [RAW]])
    assert not typed([[TP_BTF], []])
