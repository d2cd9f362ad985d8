#!/usr/bin/env bash
# Checks the models in Promela with Spin: each holds with all its rules in all its states, and
# without any one of them Spin finds an error. Needs spin and gcc.
#
#   spin.sh                all models, and each without each of its rules
#   spin.sh deep           the mutex with more turns; takes minutes and some GB
#   spin.sh MODEL RULE     prints how it fails without a rule: `spin.sh host/mutex WITHOUT_SWAP`
set -euo pipefail
cd "$(dirname "$0")/.."

# The longest first.
models="world/lease host/mutex"
build=$PWD/../build/model

# Makes the checker of a model, in a folder of its own.
make_checker() { # model folder flags...
  local model=$1 folder=$2
  shift 2
  rm -rf "$folder"
  mkdir -p "$folder"
  cp "$model.pml" "$folder/model.pml"
  (
    cd "$folder"
    spin "$@" -a model.pml >spin.log
    gcc -O1 -w -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -o pan pan.c
  )
}

# Whether the checker has been in all states, and found nothing.
is_complete() { # log
  grep -q 'errors: 0$' "$1" && ! grep -qE 'max search depth|out of memory|Search not completed' "$1"
}

# Writes a line on a model with all rules, or without one. Fails if it is not as it is to be.
check() { # model rule|all flags...
  local model=$1 rule=$2 folder=$build/$1.$2 log why
  shift 2
  log=$folder/log
  [ "$rule" = all ] || set -- "-D$rule" "$@"
  make_checker "$model" "$folder" "$@"
  (cd "$folder" && ./pan -m200000 -w24 >log 2>&1) || true
  why=$(sed -nE 's/^pan:1: (.*) \(at depth [0-9]+\)$/\1/p' "$log")
  if [ "$rule" = all ] && is_complete "$log"; then
    printf '%s: holds, in all of %s states\n' "$model" \
      "$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' "$log")"
  elif [ "$rule" != all ] && [ -n "$why" ]; then
    printf '%s: %s: found: %s\n' "$model" "$rule" "$why"
  else
    printf '%s: %s: FAILED: %s\n' "$model" "$rule" \
      "${why:-no error was found, or the search was not completed}"
    tail -n 20 "$log"
    return 1
  fi
}

rules_of() { grep -oE '\bWITHOUT_[A-Z_]*[A-Z]\b' "$1.pml" | sort -u; }

case "${1:-all}" in
  check) check "${@:2}" ;;
  all)
    command -v spin gcc >/dev/null
    {
      for model in $models; do echo "$model all"; done
      for model in $models; do rules_of "$model" | sed "s#^#$model #"; done
    } | xargs -P "${WEB_LOCKS_TEST_CORES:-$(nproc)}" -L 1 bash model/spin.sh check
    echo "The models hold, and each rule is needed."
    ;;
  deep) check host/mutex all -DTURNS=3 ;;
  */*)
    check "$1" "$2"
    cd "$build/$1.$2"
    spin -t -p -g "-D$2" model.pml
    ;;
  *)
    echo "usage: spin.sh [deep|MODEL RULE]" >&2
    exit 2
    ;;
esac
