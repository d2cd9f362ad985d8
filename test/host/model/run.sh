#!/usr/bin/env bash
# Checks the protocol of the host scope with Spin: each model holds with all its rules, in all its
# states, and Spin finds an error in it without any one of them. Needs spin and gcc.
#
#   run.sh              both models, and each rule taken away
#   run.sh deep         mutex.pml with more turns; takes minutes and some GB
#   run.sh MODEL RULE   how it fails without a rule: `run.sh mutex WITHOUT_SWAP` prints the way
set -euo pipefail
cd "$(dirname "$0")"

models="mutex wake"
build=$PWD/../../../build/model

# Makes the checker of a model, in a folder of its own.
make_checker() { # model folder flags...
  local model=$1 folder=$2
  shift 2
  rm -rf "$folder"
  mkdir -p "$folder"
  cp "$model.pml" "$folder"
  (
    cd "$folder"
    spin "$@" -a "$model.pml" >spin.log
    gcc -O1 -w -DSAFETY -DVECTORSZ=2048 -o pan pan.c
  )
}

# Whether the checker has been in all states, and found nothing.
is_complete() { # log
  grep -q 'errors: 0$' "$1" && ! grep -qE 'max search depth|out of memory|Search not completed' "$1"
}

# Writes a line on a model with all rules, or without one. Fails if it is not as it is to be.
check() { # model rule|- flags...
  local model=$1 rule=$2 folder=$build/$1.$2 log why
  shift 2
  log=$folder/log
  if [ "$rule" = - ]; then
    make_checker "$model" "$folder" "$@"
  else
    make_checker "$model" "$folder" "-D$rule" "$@"
  fi
  (cd "$folder" && ./pan -m200000 >log 2>&1) || true
  why=$(sed -nE 's/^pan:1: (.*) \(at depth [0-9]+\)$/\1/p' "$log")
  if [ "$rule" = - ]; then
    if ! is_complete "$log"; then
      printf '%s: FAILED: %s\n' "$model" "${why:-the search was not completed}"
      tail -n 20 "$log"
      return 1
    fi
    printf '%s: holds, in all of %s states\n' "$model" \
      "$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' "$log")"
  elif [ -z "$why" ]; then
    printf '%s: FAILED: Spin finds no error %s\n' "$model" "$rule"
    return 1
  else
    printf '%s: %s: found: %s\n' "$model" "$rule" "$why"
  fi
}

rules_of() { grep -oE '\bWITHOUT_[A-Z_]*[A-Z]\b' "$1.pml" | sort -u; }

case "${1:-all}" in
  check) check "${@:2}" ;;
  all)
    command -v spin gcc >/dev/null
    # The longest first; one for each core.
    {
      for model in $models; do echo "$model -"; done
      for model in $models; do rules_of "$model" | sed "s/^/$model /"; done
    } | xargs -P "${WEB_LOCKS_TEST_CORES:-$(nproc)}" -L 1 bash run.sh check
    echo "The models hold, and each rule is needed."
    ;;
  deep) check mutex - -DTURNS=3 ;;
  mutex | wake)
    check "$1" "$2"
    cd "$build/$1.$2"
    spin -t -p -g "-D$2" "$1.pml"
    ;;
  *)
    echo "usage: run.sh [deep|MODEL RULE]" >&2
    exit 2
    ;;
esac
