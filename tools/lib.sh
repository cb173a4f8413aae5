# shellcheck shell=bash disable=SC2154,SC2034
# Shared by tools/run, tools/test and conformance/run. Sourced, with bash; $root is the top of the tree.

# Two ports that are free now, on one line.
free_ports() {
  PYTHONPATH="$root/tests/support" PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -c 'import ports; print(*ports.free_ports(2))'
}

# start_broker LOGFILE FLAGS...: starts build/release/tarrymq in the background, waits for its ready line (60 s at most)
# and leaves its process id in $broker_pid and the line in $ready_line. Stderr goes to LOGFILE ("-": where ours goes).
start_broker() {
  local log=$1 dir fd
  shift
  dir=$(mktemp -d) || return 1
  mkfifo "$dir/out"
  exec {fd}<>"$dir/out"
  if [ "$log" = - ]; then
    "$root/build/release/tarrymq" "$@" >"$dir/out" &
  else
    "$root/build/release/tarrymq" "$@" >"$dir/out" 2>"$log" &
  fi
  broker_pid=$!
  ready_line=
  local deadline=$((SECONDS + 60))
  while [ $SECONDS -lt $deadline ]; do
    if read -r -t 0.2 -u "$fd" ready_line; then break; fi
    kill -0 "$broker_pid" 2>/dev/null || break
  done
  exec {fd}>&-
  rm -rf "$dir"
  case $ready_line in
    *ready:*) return 0 ;;
  esac
  if kill -0 "$broker_pid" 2>/dev/null; then stop_broker; fi
  wait "$broker_pid" 2>/dev/null
  broker_status=$?
  broker_pid=
  return 1
}

# Ends the broker that start_broker began: SIGTERM, and SIGKILL if it is still there after 20 s. Its exit status.
stop_broker() {
  [ -n "${broker_pid:-}" ] || return 0
  kill -TERM "$broker_pid" 2>/dev/null
  ( sleep 20 & s=$!; trap 'kill $s 2>/dev/null; exit' TERM; wait $s; kill -KILL "$broker_pid" 2>/dev/null ) &
  local guard=$!
  wait "$broker_pid" 2>/dev/null
  local status=$?
  kill -TERM "$guard" 2>/dev/null
  wait "$guard" 2>/dev/null
  broker_pid=
  return $status
}
