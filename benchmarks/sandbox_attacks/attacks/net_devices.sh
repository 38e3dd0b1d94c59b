# Gives the sandbox a network: devices, addresses, routes, and the host's namespaces by name.
ip link add veth0 type veth peer name veth1 netns $VICTIM 2>&1; ip link add d0 type dummy 2>&1; ip tuntap add mode tun 2>&1
ip addr add 192.0.2.7/24 dev lo 2>&1; ip route add default dev lo 2>&1; ip netns list 2>&1; nsenter -t $VICTIM -n ip a 2>&1
iptables -L 2>&1 | head -2; nft list ruleset 2>&1 | head -2
