"""A program whose interpreter is that of the process that starts it: outside, and where it could be changed."""

# phases: 2
# then: /workspace/run
from kit import *

with open("run", "w") as file:
    file.write("#!/proc/self/exe -S\nimport time\ntime.sleep(1)\n")
os.chmod("run", 0o755)
