"""The compile child: turns one C file into attached programs, hands their descriptors over, and exits.

Run as a script by an interpreter that has bcc, which need not be the daemon's: only the standard library,
bcc and this package's `attach`, `btf`, `hooks`, `libbpf` and `load` are used. LLVM lives and dies here; what
it made lives on in the descriptors. The request is JSON on stdin, the answer goes to the socket whose number
is the argument.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import Any, Final

if not __package__:  # as a script: our own folder must not shadow anybody's modules, its parent has ours
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bpf import hooks, load
from bpf.attach import attach
from bpf.btf import Btf

INCLUDE: Final = Path(__file__).resolve().parent / "include"


class HostError(Exception):
    """This host lacks something that compiling or loading needs; trying again would not help."""


class CompileError(Exception):
    """The program text is not accepted by the compiler."""


class HookRefusedError(Exception):
    """The kernel will not have a typed hook that its BTF describes; there are more ways to the same event."""

    def __init__(self, variant: hooks.Variant) -> None:
        super().__init__(f"{variant[0]} {variant[1]} is refused")
        self.variant = variant


def import_bcc() -> Any:
    """The bcc package, told to take our few headers for a kernel source tree. Raises `HostError`."""
    os.environ["BCC_KERNEL_SOURCE"] = str(INCLUDE / "kernel")
    try:
        import bcc
    except Exception as error:  # a missing LLVM raises OSError, somebody else's `bcc` anything at all
        raise HostError(f"{sys.executable} cannot import bcc: {error}") from error
    if not hasattr(bcc, "BPF"):
        raise HostError(f"the bcc of {sys.executable} is not the BPF Compiler Collection")
    return bcc


def open_btf(folder: str) -> Btf:
    try:
        return Btf(Path(folder))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise HostError(f"no kernel BTF: {where}{error.strerror or error}") from error


def definitions(request: dict[str, Any], btf: Btf, typed: bool) -> list[str]:
    """Compiler flags: the request's constants, this kernel's field names and enumerators, the host."""
    values: dict[str, Any] = dict(request["defines"])
    for macro, (struct, names) in request["fields"].items():
        field = btf.first_field(struct, names)
        if field is None:
            raise HostError(f"this kernel's struct {struct} has no field {' or '.join(names)}")
        values[macro] = field
    for macro, (enum, name) in request["enums"].items():
        value = btf.enum_value(enum, name)
        if value is None:
            raise HostError(f"this kernel's enum {enum} has no {name}")
        values[macro] = value
    for macro, (struct, name) in request["present"].items():
        values[macro] = int(btf.has_field(struct, name))
    for macro, (function, name) in request["parameters"].items():
        values[macro] = int(btf.has_parameter(function, name))
    values[f"ARCH_{platform.machine()}"] = 1
    # The task pointer of this helper (5.11) may be dereferenced too; that of the older one may not.
    current = btf.enum_value("bpf_func_id", "BPF_FUNC_get_current_task_btf") is not None
    values["TYPED"] = int(typed and current)
    return [f"-D{macro}={value}" for macro, value in values.items()]


def compile_text(bcc: Any, request: dict[str, Any], btf: Btf, flags: list[str]) -> Any:
    """The compiled module. Raises `CompileError`; what the compiler says is on stderr by then."""
    source = Path(request["source"])
    try:
        types = btf.c_types(request["structs"])
    except LookupError as error:
        raise HostError(str(error.args[0])) from error
    text = f'{types}\n#line 1 "{source.name}"\n{source.read_text()}'
    try:
        return bcc.BPF(text=text, cflags=["-w", "-DBPF_NO_PRESERVE_ACCESS_INDEX", f"-I{INCLUDE}", *flags])
    except Exception as error:
        raise CompileError(f"{source.name} does not compile") from error


def serve(request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Do all that is asked; returns the answer, and the descriptors in the order the answer names them.

    Where a typed hook is refused all is done anew without it: then the object is another text, for programs
    of other hooks must read through probe reads.
    """
    bcc = import_bcc()
    btf = open_btf(request["btf"])
    refused: set[hooks.Variant] = set()
    while True:
        # By the name of what the best variant hooks.
        chosen = {
            hook[0][1]: hooks.candidates([way for way in map(tuple, hook) if way not in refused], btf)
            for hook in request["hooks"]
        }
        others = {hook[0][1] for hook in request["hooks"] if len(set(map(tuple, hook)) - refused) > 1}
        kept: list[int] = []
        try:
            return build(bcc, request, btf, chosen, others, kept)
        except HookRefusedError as refusal:
            refused.add(refusal.variant)
            for descriptor in kept:
                os.close(descriptor)


def build(
    bcc: Any,
    request: dict[str, Any],
    btf: Btf,
    chosen: dict[str, list[hooks.Variant]],
    others: set[str],
    kept: list[int],
) -> tuple[dict[str, Any], list[int]]:
    """Compile, load and attach with these variants; `kept` gets every descriptor that was made.

    Raises:
        HookRefusedError: of a hook that is among `others`, those with another way.
    """
    flags = definitions(request, btf, hooks.typed(list(chosen.values())))
    with contextlib.suppress(ValueError, OSError):  # before 5.11 maps count as locked memory
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    maps: dict[str, int] = {}
    for wanted in request["maps"]:
        maps[wanted["name"]] = load.create_map(wanted)
        kept.append(maps[wanted["name"]])
    # The C text names a map by its descriptor, so that maps are declared in one place, in the request.
    flags += [f"-DMAP_{name}={descriptor}" for name, descriptor in maps.items()]
    module = compile_text(bcc, request, btf, flags)
    programs = []
    for name, variants in chosen.items():
        program, descriptors = install(variants, name, module, btf, name in others)
        programs.append(program)
        kept += descriptors
    return {"maps": list(maps), "programs": programs}, kept


def install(
    variants: list[hooks.Variant], name: str, module: Any, btf: Btf, others: bool
) -> tuple[dict[str, Any], list[int]]:
    """Load and attach the first variant that this kernel takes.

    Not being attached costs only this program; not being loaded raises `KernelError`, for the object's C text
    is wrong then, or the process lacks the right. A typed hook that the kernel will not have, though the
    verifier has nothing against its program, raises `HookRefusedError` where there are others.
    """
    from bcc.libbcc import lib as libbcc

    refused = load.KernelError(errno.ENOENT, f"no way to hook {name}")
    for variant in variants:
        function = variant[2].encode()
        start = libbcc.bpf_function_start(module.module, function)
        if not start:
            raise CompileError(f"the program text has no function {variant[2]}")
        code = (start, libbcc.bpf_function_size(module.module, function))
        may_refuse = others and variant[0] in hooks.TYPED and not load.missing_capabilities()
        try:
            program = load.load_program(variant, code, btf)
        except load.KernelError as error:
            if may_refuse and not error.log:
                raise HookRefusedError(variant) from error
            raise
        try:
            link = attach(variant, program)
        except load.KernelError as error:
            refused = error
            os.close(program)
            if may_refuse:
                raise HookRefusedError(variant) from error
            if error.errno != errno.ENOENT:
                break
        else:
            answer = {"name": name, "kind": variant[0], "attached": True, "error": "", "errno": 0}
            return answer, [program, link]
    answer = {"name": name, "kind": "", "attached": False, "error": str(refused), "errno": refused.errno}
    return answer, []


def answer(request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """`serve`, with what may go wrong put into words and told apart."""
    try:
        return serve(request)
    except HostError as error:
        return {"error": str(error), "unsupported": True, "log": []}, []
    except load.KernelError as error:
        lacking = error.errno == errno.EPERM
        return {"error": str(error), "unsupported": lacking, "log": error.log}, []
    except CompileError as error:
        return {"error": str(error), "unsupported": False, "log": []}, []


def main(argument: str) -> None:
    request = json.load(sys.stdin)
    signal.alarm(request["seconds"])  # even if nobody is left to end it
    reply, descriptors = answer(request)
    with socket.socket(fileno=int(argument)) as channel:
        payload = json.dumps(reply).encode()
        sent = socket.send_fds(channel, [payload], descriptors)
        channel.sendall(payload[sent:])
    os._exit(0)  # bcc's exit handlers would take apart what has just been handed over


if __name__ == "__main__":
    main(sys.argv[1])
