#!/usr/bin/env bash
# Builds and runs the C tests in every way: plain, under sanitizers, under valgrind, and the fuzzer.
#
#   run.sh                all of it
#   run.sh quick          plain, with gcc
#   run.sh asan|tsan|small|valgrind
#   run.sh fuzz [seconds]
set -euo pipefail
cd "$(dirname "$0")"

build=../../build
make="make --no-print-directory -s"

quick() { $make check CC=gcc BUILD=$build/core-gcc; }

asan() { $make check CC=clang BUILD=$build/core-asan SANITIZE=address,undefined; }

# Each of the threads' steps costs a check of every invariant; under TSan that is slow.
tsan() { $make check CC=clang BUILD=$build/core-tsan SANITIZE=thread STEPS=5000; }

small() {
  $make all CC=clang BUILD=$build/core-small SANITIZE=address,undefined SMALL=1
  for test in units "cases_test ../fixtures/cases.json" "fuzz_corpus 500 corpus/*" \
    "stress_test 2000"; do
    # shellcheck disable=SC2086
    $build/core-small/$test
  done
}

valgrind_all() {
  $make all CC=gcc BUILD=$build/core-gcc
  for test in units "cases_test ../fixtures/cases.json" "cost_test 10000" "stress_test 500"; do
    # shellcheck disable=SC2086
    valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=all $build/core-gcc/$test
  done
}

fuzz() {
  $make $build/core-fuzz/fuzz CC=clang BUILD=$build/core-fuzz SANITIZE=address,undefined
  mkdir -p $build/core-fuzz/corpus
  $build/core-fuzz/fuzz -max_total_time="${1:-20}" -max_len=600 -print_final_stats=1 \
    -artifact_prefix=$build/core-fuzz/ $build/core-fuzz/corpus corpus 2>&1 |
    grep -vE '^#|NEW|REDUCE|^INFO|^"|Recommended dictionary|^Done'
}

case "${1:-all}" in
  quick) quick ;;
  asan) asan ;;
  tsan) tsan ;;
  small) small ;;
  valgrind) valgrind_all ;;
  fuzz) fuzz "${2:-20}" ;;
  all)
    quick
    asan
    tsan
    small
    valgrind_all
    fuzz 20
    ;;
  *)
    echo "usage: run.sh [quick|asan|tsan|small|valgrind|fuzz [seconds]]" >&2
    exit 2
    ;;
esac
