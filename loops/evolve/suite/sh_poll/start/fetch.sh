n=$(cat .tries 2>/dev/null || echo 0)
echo $((n+1)) > .tries
[ $n -lt 2 ] && { echo busy >&2; exit 75; }
echo 4711
