#!/bin/sh
# two_networks.sh PROGRAM: two ranks in network namespaces of their own, as on two hosts. Each has an interface that
# leads nowhere before the one to the other, and a host name that does not resolve.
#
#     namespace one                    namespace two
#     a0 192.0.2.1 (to a1, here)       a0 192.0.2.2 (to a1, here)
#     b0 198.51.100.1  <------------>  b0 198.51.100.2
set -e
if [ "$2" != inside ]; then exec unshare --map-root-user --net --uts "$0" "$1" inside; fi

program=$1
folder=$(mktemp -d)
hostname two-networks-test
unshare --net sleep 300 &
one=$!
unshare --net sleep 300 &
two=$!
trap 'kill $one $two 2>/dev/null; rm -rf "$folder"' EXIT
in_one() { nsenter --target $one --net "$@"; }
in_two() { nsenter --target $two --net "$@"; }
# The namespaces are there once they are no longer this one.
for process in $one $two; do
  while [ "$(readlink /proc/$process/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
done

number=1
for namespace in in_one in_two; do
  $namespace ip link set lo up
  $namespace ip link add a0 type veth peer name a1
  $namespace ip address add 192.0.2.$number/32 dev a0
  $namespace ip link set a0 up
  $namespace ip link set a1 up
  number=$((number + 1))
done
ip link add b1 type veth peer name b2
ip link set b1 netns $one name b0
ip link set b2 netns $two name b0
in_one ip address add 198.51.100.1/24 dev b0
in_two ip address add 198.51.100.2/24 dev b0
in_one ip link set b0 up
in_two ip link set b0 up

# ranks FLAGS FOR_RANK_1: starts both and returns rank 0's exit code.
ranks() {
  flags="bench --model lenet5 --batch 2 --steps 2 --warmup 1 --no-controls --ranks 2 --threads 1 --bind none $1"
  export WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=198.51.100.1 MASTER_PORT=29431
  RANK=1 in_two "$program" $flags $2 >"$folder/second" 2>&1 &
  second=$!
  code=0
  RANK=0 in_one "$program" $flags >"$folder/first" 2>&1 || code=$?
  wait $second || true
  return $code
}

if ! ranks "" ""; then
  echo "the ranks did not find the network that leads to rank 0:"
  cat "$folder/first" "$folder/second"
  exit 1
fi
began=$(date +%s)
if ranks "" "--interface a0"; then
  echo "ranks met over a network that leads nowhere"
  exit 1
fi
if ! grep -q -e "--interface" "$folder/first" "$folder/second"; then
  echo "no word of --interface where the wrong one was named:"
  cat "$folder/first" "$folder/second"
  exit 1
fi
# The system alone would try to connect for more than two minutes.
if [ $(($(date +%s) - began)) -gt 90 ]; then
  echo "the wrong network was named after $(($(date +%s) - began)) s only"
  exit 1
fi
