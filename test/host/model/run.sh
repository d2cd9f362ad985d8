#!/usr/bin/env bash
# Checks the mutex of the host scope with Spin: its model holds with all its rules, in all its states,
# and Spin finds an error in it without any one of them. Needs spin and gcc.
#
#   run.sh         the model, and each rule taken away
#   run.sh deep    with more turns; takes minutes and some GB
#   run.sh RULE    how it fails without a rule: `run.sh WITHOUT_SWAP` prints the way
set -euo pipefail
cd "$(dirname "$0")"

build=$PWD/../../../build/model

# Makes the checker, in a folder of its own.
make_checker() { # folder flags...
  local folder=$1
  shift
  rm -rf "$folder"
  mkdir -p "$folder"
  cp mutex.pml "$folder"
  (
    cd "$folder"
    spin "$@" -a mutex.pml >spin.log
    gcc -O1 -w -DSAFETY -DVECTORSZ=2048 -o pan pan.c
  )
}

# Whether the checker has been in all states, and found nothing.
is_complete() { # log
  grep -q 'errors: 0$' "$1" && ! grep -qE 'max search depth|out of memory|Search not completed' "$1"
}

# Writes a line on the model with all rules, or without one. Fails if it is not as it is to be.
check() { # rule|all flags...
  local rule=$1 folder=$build/$1 log why
  shift
  log=$folder/log
  [ "$rule" = all ] || set -- "-D$rule" "$@"
  make_checker "$folder" "$@"
  (cd "$folder" && ./pan -m200000 >log 2>&1) || true
  why=$(sed -nE 's/^pan:1: (.*) \(at depth [0-9]+\)$/\1/p' "$log")
  if [ "$rule" = all ] && is_complete "$log"; then
    printf 'holds, in all of %s states\n' "$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' "$log")"
  elif [ "$rule" != all ] && [ -n "$why" ]; then
    printf '%s: found: %s\n' "$rule" "$why"
  else
    printf '%s: FAILED: %s\n' "$rule" "${why:-no error was found, or the search was not completed}"
    tail -n 20 "$log"
    return 1
  fi
}

case "${1:-all}" in
  check) check "${@:2}" ;;
  all)
    command -v spin gcc >/dev/null
    # The longest first; one for each core.
    { echo all && grep -oE '\bWITHOUT_[A-Z_]*[A-Z]\b' mutex.pml | sort -u; } |
      xargs -P "${WEB_LOCKS_TEST_CORES:-$(nproc)}" -L 1 bash run.sh check
    echo "The model holds, and each rule is needed."
    ;;
  deep) check all -DTURNS=3 ;;
  WITHOUT_*)
    check "$1"
    cd "$build/$1"
    spin -t -p -g "-D$1" mutex.pml
    ;;
  *)
    echo "usage: run.sh [deep|RULE]" >&2
    exit 2
    ;;
esac
