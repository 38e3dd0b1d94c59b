#!/bin/sh
# Creates the virtual environment $1 and installs exactly what requirements.lock says.
# PYTHON: the interpreter; TORCH_INDEX: another index for torch (empty: pip's own configuration).
set -eu
venv=$1
python=${PYTHON:-python3}

fail() {
    echo "setup: $1" >&2
    echo "  remedy: $2" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 || fail "'$python' was not found" "install python3 (3.11 or newer) or run: make PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$("$python" --version) is too old" "install Python 3.11 or newer and run: make PYTHON=/path/to/python3"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
    fail "this Python has no venv module" "on Debian or Ubuntu: apt-get install python3-venv"

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip="$venv/bin/python -m pip --disable-pip-version-check --quiet"
torch=$(grep '^torch==' requirements.lock)
echo "setup: installing $torch"
if [ -n "${TORCH_INDEX:-}" ]; then
    $pip install --index-url "$TORCH_INDEX" "$torch"
else
    $pip install "$torch"
fi
echo "setup: installing the locked requirements (a few minutes the first time)"
$pip install -r requirements.lock
$pip install --no-deps --no-build-isolation -e .
