"""Changes the evaluator that was mounted read-only."""

# control: yes
from kit import *

path = EVALUATOR + "/check.py"
attempt(os.chmod, path, 0o777)
attempt(lambda: open(path, "a").write("print('fooled')\n"))
attempt(lambda: os.rename(path, path + ".old"))
leave(path)
attempt(os.utime, EVALUATOR)
leave(f"{EVALUATOR}/sitecustomize.py")
