#!/usr/bin/env bash
# Builds and runs the tests of the host scope in every way: plain, under sanitizers, under valgrind,
# and the fuzzers.
#
#   run.sh                all of it
#   run.sh quick          plain, with gcc
#   run.sh asan|small|valgrind
#   run.sh torn [stride]  death at every store, and in repairs at every `stride`-th; 1 takes long
#   run.sh fuzz [seconds] each fuzzer for so long
#   run.sh processes      several processes: grants, deaths, damage to files, torture
#   run.sh plain [stride] the same with the plain variant of the port, as macOS has it, and that in
#                         Node.js: the tests of the host scope, conformance, torture
#   run.sh steps [stride] death at each `stride`-th instruction of each operation
#   run.sh torture [seconds] [processes] [threads] [seed]
set -euo pipefail
cd "$(dirname "$0")"

build=../../build
make="make --no-print-directory -s"

quick() { $make check CC=gcc BUILD=$build/host-gcc; }

asan() {
  $make check CC=clang BUILD=$build/host-asan SANITIZE=address,undefined STRIDE=997 ROUNDS=1000
}

# With as few as can be of all that is done or kept at a time.
small() {
  local folder=$build/host-small
  $make -f processes.mk all CC=clang BUILD="$folder" SANITIZE=address,undefined SMALL=1
  for test in threads_test turn_test processes_test between_test "torture 10"; do
    # shellcheck disable=SC2086
    "$folder"/$test
  done
}

valgrind_all() {
  $make all CC=gcc BUILD=$build/host-gcc
  for test in cells_test "cases_test ../fixtures/cases.json" burst_test glimpse_test "compare 20" "damage 200"; do
    # shellcheck disable=SC2086
    valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=all $build/host-gcc/$test
  done
}

torn() {
  $make all CC=gcc BUILD=$build/host-gcc
  $build/host-gcc/torn_test "$1"
}

fuzz() {
  for target in compare damage; do
    $make $build/host-fuzz/fuzz_$target CC=clang BUILD=$build/host-fuzz SANITIZE=address,undefined
    mkdir -p $build/host-fuzz/corpus-$target
    $build/host-fuzz/fuzz_$target -max_total_time="$1" -max_len=1200 -timeout=10 \
      -print_final_stats=1 -artifact_prefix=$build/host-fuzz/ $build/host-fuzz/corpus-$target 2>&1 |
      grep -vE '^#|NEW|REDUCE|^INFO|^"|Recommended dictionary|^Done'
  done
}

# processes FOLDER [VARIABLE=…]: under no sanitizer, and then under each
processes() {
  local folder=$build/$1
  shift
  $make -f processes.mk check CC=gcc BUILD="$folder" "$@"
  $make -f processes.mk all CC=clang BUILD="$folder-asan" SANITIZE=address,undefined "$@"
  "$folder-asan/threads_test"
  "$folder-asan/turn_test"
  "$folder-asan/processes_test"
  "$folder-asan/between_test"
  [[ ! -x "$folder-asan/faults_test" ]] || "$folder-asan/faults_test" 13
  # Some of its processes are to die of a fault as they would without a sanitizer.
  ASAN_OPTIONS=handle_sigbus=0:handle_segv=0 "$folder-asan/harm_test"
  "$folder-asan/torture" 10
  for test in threads_test turn_test; do
    $make -f processes.mk "$folder-tsan/$test" CC=clang BUILD="$folder-tsan" SANITIZE=thread "$@"
    "$folder-tsan/$test"
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
  processes host-plain PLAIN=1 STRIDE="$1"
  plain_addon
  cd ../..
  node test/run.js test/host/*.test.js
  MODEL_RUNS=30 node test/conformance/run.js host
  node test/torture/torture.js --scope host --seconds 20
}

of_processes() {
  program=$1
  shift
  $make -f processes.mk all CC=gcc BUILD=$build/host-processes
  "$build/host-processes/$program" "$@"
}

case "${1:-all}" in
  quick) quick ;;
  asan) asan ;;
  small) small ;;
  valgrind) valgrind_all ;;
  torn) torn "${2:-7}" ;;
  fuzz) fuzz "${2:-20}" ;;
  processes) processes host-processes ;;
  plain) plain "${2:-2003}" ;;
  steps) of_processes steps_test "${@:2}" ;;
  torture) of_processes torture "${@:2}" ;;
  all)
    quick
    asan
    valgrind_all
    processes host-processes
    fuzz 20
    ;;
  *)
    echo "usage: run.sh [quick|asan|small|valgrind|torn [stride]|fuzz [seconds]|processes|plain [stride]|steps|torture]" >&2
    exit 2
    ;;
esac
