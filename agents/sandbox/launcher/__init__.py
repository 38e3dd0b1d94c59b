"""The process that starts sandboxes. Standard library only; it is its own small process, apart from the caller's.

zygote      waits for jobs and forks a supervisor for each, so that no interpreter has to start
supervise   outside the sandbox: limits, output, deadline, result
memory      the limit of all processes together
disk        the limit of the workspace
watch       what both count, read from outside
capture     its standard streams
init        inside: enters the namespaces, builds the root, drops every right, starts the command as its only child
starter     inside: the only program that process 1 starts; it starts the command
forward     inside: from a loopback port to the egress proxy's socket
rootfs      the file system the command sees
seccomp     the system calls it may not make
cgroups     pids and memory groups, where the machine lets us
kernel      the system calls Python 3.11 has no name for
wire        the messages between the caller and the supervisor
"""
