"""Links to files outside, for whoever reads the exported workspace."""

from kit import *

for number, path in enumerate(
    (SECRET_FILE, ROOT_FILE, "/etc/shadow", SIBLING_FILE, "../../../../../../.." + SECRET_FILE)
):
    os.symlink(path, f"link-{number}")
os.unlink("notes.txt")
os.symlink(SECRET_FILE, "notes.txt")
