#!/bin/sh
# chromium (browser tests) and bubblewrap (sandbox tests): installed when root, otherwise named.
set -eu
missing=
command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
command -v bwrap >/dev/null 2>&1 || missing="$missing bubblewrap"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "system: installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "system: the tests that need$missing are skipped; install with: sudo apt-get install$missing" >&2
fi
