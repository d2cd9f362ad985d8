#!/usr/bin/env bash
# Builds and runs the C tests in every way: plain, under sanitizers, under valgrind, and the fuzzer.
# Each way runs the programs in which it can find what the others do not.
#
#   run.sh                all of it
#   run.sh quick          plain, with gcc
#   run.sh asan|tsan|small|valgrind
#   run.sh fuzz [seconds]
#   run.sh coverage       prints which share of the branches of src/core is taken
set -euo pipefail
cd "$(dirname "$0")"

build=../../build

# Builds and runs programs in a folder, with variables of the Makefile: run FOLDER VARIABLES
# PROGRAM…
run() {
  local folder=$build/$1 variables=$2 program
  shift 2
  for program in "$@"; do
    # shellcheck disable=SC2086
    make --no-print-directory -s "$folder/${program%% *}" "BUILD=$folder" $variables
    # shellcheck disable=SC2086
    ${tool:-} "$folder"/$program
  done
}

quick() {
  run core-gcc CC=gcc units cost_test chosen_test "fuzz_corpus 3000" "stress_test 1000"
}

asan() { run core-asan "CC=clang SANITIZE=address,undefined" units "stress_test 300"; }

tsan() { run core-tsan "CC=clang SANITIZE=thread" units "stress_test 300"; }

small() {
  run core-small "CC=clang SANITIZE=address,undefined SMALL=1" \
    units "fuzz_corpus 300" "stress_test 100"
}

valgrind_all() {
  tool="valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=all" \
    run core-gcc CC=gcc "fuzz_corpus 20" "stress_test 10"
}

# Under sanitizers, too.
fuzz() {
  local folder=$build/core-fuzz
  make --no-print-directory -s $folder/fuzz CC=clang BUILD=$folder SANITIZE=address,undefined
  mkdir -p $folder/corpus
  $folder/fuzz -max_total_time="${1:-20}" -max_len=600 -print_final_stats=1 \
    -artifact_prefix=$folder/ $folder/corpus 2>&1 |
    grep -vE '^#|NEW|REDUCE|^INFO|^"|Recommended dictionary|^Done'
}

coverage() {
  find $build/core-coverage -name '*.gcda' -delete 2>/dev/null || true
  run core-coverage "CC=gcc COVERAGE=1" units "fuzz_corpus 1000" "stress_test 300"
  ./coverage.sh $build/core-coverage core
}

case "${1:-all}" in
  quick) quick ;;
  asan) asan ;;
  tsan) tsan ;;
  small) small ;;
  valgrind) valgrind_all ;;
  fuzz) fuzz "${2:-20}" ;;
  coverage) coverage ;;
  all)
    quick
    asan
    tsan
    small
    valgrind_all
    fuzz 10
    ;;
  *)
    echo "usage: run.sh [quick|asan|tsan|small|valgrind|fuzz [seconds]|coverage]" >&2
    exit 2
    ;;
esac
