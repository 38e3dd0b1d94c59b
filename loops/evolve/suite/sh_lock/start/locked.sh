n=$(cat .l 2>/dev/null || echo 0)
echo $((n+1)) > .l
[ $n -lt 3 ] && { echo locked >&2; exit 75; }
echo open sesame
