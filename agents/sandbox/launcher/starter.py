"""The smallest program that starts another: execve(argv[0], argv + 1, environment), a whole ELF file for each machine.

Process 1 of a sandbox runs an interpreter that lies outside. While a process starts a program, /proc/self/exe is still
its own, and a command may name that: as its program, after "#!" or as an ELF interpreter. It would then run the
interpreter from where a write reaches the host. So process 1 starts only this, a file of the sandbox's own read-only
root, and this starts the command. A program of the system would do, at the cost of loading its libraries each time.
"""

from __future__ import annotations

import platform
import struct

NOT_EXECUTABLE = 126
_MESSAGE = b"cannot be executed\n"
_ADDRESS = 0x400000
_HEADERS_BYTES = 64 + 56
_ET_EXEC, _PT_LOAD, _READ_AND_EXECUTE = 2, 1, 5
_PAGE_BYTES = 1 << 16  # the largest of both machines

# The kernel leaves argc, argv, NULL, environment at the stack pointer. What follows execve is reached when it fails.
_X86_64 = bytes.fromhex(
    "488b0424"  # mov rax, [rsp]
    "488b7c2408"  # mov rdi, [rsp+8]
    "488d742410"  # lea rsi, [rsp+16]
    "488d54c410"  # lea rdx, [rsp+rax*8+16]
    "b83b000000 0f05"  # mov eax, 59 (execve); syscall
    "bf02000000"  # mov edi, 2
    "488d3518000000"  # lea rsi, [rip+24]: the message
    "ba13000000"  # mov edx, 19
    "b801000000 0f05"  # mov eax, 1 (write); syscall
    "bf7e000000"  # mov edi, 126
    "b8e7000000 0f05"  # mov eax, 231 (exit_group); syscall
)
_AARCH64 = struct.pack(
    "<14I",
    0xF94003E9,  # ldr x9, [sp]
    0xF94007E0,  # ldr x0, [sp, #8]
    0x910043E1,  # add x1, sp, #16
    0x8B090C22,  # add x2, x1, x9, lsl #3
    0xD2801BA8,  # mov x8, #221 (execve)
    0xD4000001,  # svc #0
    0xD2800040,  # mov x0, #2
    0x100000E1,  # adr x1, #28: the message
    0xD2800262,  # mov x2, #19
    0xD2800808,  # mov x8, #64 (write)
    0xD4000001,  # svc #0
    0xD2800FC0,  # mov x0, #126
    0xD2800BC8,  # mov x8, #94 (exit_group)
    0xD4000001,  # svc #0
)
_MACHINES = {"x86_64": (62, _X86_64), "aarch64": (183, _AARCH64)}


def program() -> bytes:
    """The file for this machine. Raises KeyError for an architecture without one."""
    number, code = _MACHINES[platform.machine()]
    content = code + _MESSAGE
    size = _HEADERS_BYTES + len(content)
    identity = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)  # 64 bits, little-endian, version 1
    entry = _ADDRESS + _HEADERS_BYTES
    header = struct.pack("<16sHHIQQQIHHHHHH", identity, _ET_EXEC, number, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", _PT_LOAD, _READ_AND_EXECUTE, 0, _ADDRESS, _ADDRESS, size, size, _PAGE_BYTES)
    return header + segment + content
