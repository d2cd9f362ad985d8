#!/usr/bin/env bash
# Builds and runs the C tests of the host scope. Without an argument it does all but `torn`, `small`
# and `plain`.
#
#   run.sh quick          the cells of a segment, with gcc
#   run.sh steps [stride] [operation]  death at each `stride`-th instruction of each operation
#   run.sh asan|tsan|valgrind          each test in which a tool finds more than its judge
#   run.sh small          with the smallest capacities
#   run.sh torn [stride]  death at every store, and in repairs at every `stride`-th; 1 takes long
#   run.sh fuzz [seconds] each fuzzer for this time
#   run.sh coverage       prints which share of the branches of src/host is taken
#   run.sh torture [seconds] [processes] [threads] [seed]
#   run.sh plain          with the plain variant of the port, as on macOS, also in Node.js: the tests of
#                         the host scope, conformance, torture
set -euo pipefail
cd "$(dirname "$0")"

build=../../build

# make_all FOLDER [VARIABLE=…] TARGET…: a target is `cells`, `processes` or the path of a program
make_all() {
  local folder=$build/$1
  shift
  make --no-print-directory -s -j "${WEB_LOCKS_TEST_CORES:-$(nproc)}" BUILD="$folder" "$@"
}

# run FOLDER PROGRAM…: each with its arguments in one word
run() {
  local folder=$build/$1 program
  shift
  for program; do
    # shellcheck disable=SC2086
    "$folder"/$program
  done
}

quick() {
  make_all host-gcc CC=gcc cells
  run host-gcc cells_test torn_test "compare 2000" "damage 2000"
}

of_processes() {
  make_all host-gcc CC=gcc processes
  run host-gcc "$*"
}

# Some of its processes are to die of a fault as they would without a sanitizer.
harm() { ASAN_OPTIONS=handle_sigbus=0:handle_segv=0 run "$1" harm_test; }

# processes FOLDER [VARIABLE=…]
processes() {
  make_all "$@" CC=clang SANITIZE=address,undefined processes
  run "$1" turn_test between_test
  [[ ! -x "$build/$1/faults_test" ]] || run "$1" "faults_test 13"
  harm "$1"
  run "$1" "torture 5"
}

# The fuzzers are the others of `cells` that look for errors of memory.
asan() {
  make_all host-asan CC=clang SANITIZE=address,undefined cells
  run host-asan cells_test
  processes host-asan
}

tsan() {
  make_all host-tsan CC=clang SANITIZE=thread $build/host-tsan/{torture,turn_test}
  run host-tsan turn_test "torture 5"
}

valgrind_all() {
  local program
  make_all host-gcc CC=gcc cells
  for program in cells_test "compare 20" "damage 200"; do
    # shellcheck disable=SC2086
    valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=all $build/host-gcc/$program
  done
}

small() {
  make_all host-small CC=clang SANITIZE=address,undefined SMALL=1 processes
  harm host-small
  run host-small turn_test between_test "torture 10"
}

fuzz() {
  local target folder=$build/host-fuzz
  make_all host-fuzz CC=clang SANITIZE=address,undefined,fuzzer-no-link $folder/fuzz_{compare,damage}
  for target in compare damage; do
    mkdir -p $folder/corpus-$target
    $folder/fuzz_$target -max_total_time="$1" -max_len=1200 -timeout=10 -print_final_stats=1 \
      -artifact_prefix=$folder/ $folder/corpus-$target 2>&1 |
      grep -vE '^#|NEW|REDUCE|^INFO|^"|Recommended dictionary|^Done'
  done
}

# The addon with the plain variant, from a copy of the sources, so that the ordinary build stays.
plain_addon() {
  local root copy
  root=$(cd ../.. && pwd)
  copy=$root/build/plain
  rm -rf "$copy"
  mkdir -p "$copy"
  cp -r "$root/src" "$root/binding.gyp" "$root/package.json" "$copy"
  ln -s "$root/node_modules" "$copy/node_modules"
  (cd "$copy" && GYP_DEFINES=plain_port=1 npm run rebuild >build.log 2>&1) ||
    { tail -50 "$copy/build.log" && exit 1; }
  export WEB_LOCKS_BINARY=$copy/build/Release/web_locks.node WEB_LOCKS_TEST_PORT=plain
}

plain() {
  make_all host-plain CC=gcc PLAIN=1 processes
  run host-plain "steps_test 2003" "torture 10"
  processes host-plain-asan PLAIN=1
  plain_addon
  cd ../..
  node test/run.js test/host/*.test.js
  MODEL_RUNS=30 node test/conformance/run.js host
  node test/torture/torture.js --scope host --seconds 20
}

# Processes that are killed write nothing.
coverage() {
  find $build/host-coverage -name '*.gcda' -delete 2>/dev/null || true
  make_all host-coverage CC=gcc COVERAGE=1 cells processes
  run host-coverage cells_test torn_test "compare 500" "damage 500" turn_test \
    between_test "faults_test 13" harm_test "torture 5"
  ../core/coverage.sh $build/host-coverage host
}

case "${1:-all}" in
  quick) quick ;;
  steps) of_processes steps_test "${@:2}" ;;
  asan) asan ;;
  tsan) tsan ;;
  valgrind) valgrind_all ;;
  small) small ;;
  torn)
    make_all host-gcc CC=gcc cells
    run host-gcc "torn_test ${2:-7}"
    ;;
  fuzz) fuzz "${2:-20}" ;;
  coverage) coverage ;;
  torture) of_processes torture "${@:2}" ;;
  plain) plain ;;
  all)
    quick
    of_processes steps_test 211
    of_processes torture 10
    asan
    tsan
    valgrind_all
    fuzz 20
    ;;
  *)
    echo "usage: run.sh [quick|steps|asan|tsan|valgrind|small|torn|fuzz|coverage|torture|plain]" >&2
    exit 2
    ;;
esac
