# Background jobs that outlive their shell.
nohup sleep 31 >/dev/null 2>&1 &
setsid sh -c "sleep 32; echo $TOKEN" </dev/null >/dev/null 2>&1 &
(sleep 33 &)
disown -a 2>/dev/null; exit 0
