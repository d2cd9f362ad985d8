#!/usr/bin/env bash
# Runs the JavaScript tests with the addon and the core built as a checked build under
# AddressSanitizer and UBSan. They find errors of agent teardown, late wake-ups and uses after free;
# every invariant is checked after every critical section of the core, and leaks of the addon are
# reported.
#
#   run.sh [test file …]
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
build=$root/build/asan

# A copy of the sources keeps the ordinary build unchanged.
mkdir -p "$build"
rm -rf "$build/src"
cp -r src binding.gyp package.json "$build"
ln -sfn "$root/node_modules" "$build/node_modules"
flags="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g -O1"
(
  cd "$build"
  CFLAGS="$flags" CXXFLAGS="$flags" LDFLAGS="-fsanitize=address,undefined" GYP_DEFINES=checks=1 \
    npm run rebuild >build.log 2>&1 || { tail -50 build.log; exit 1; }
)

# Only the allocating function and its caller are kept of a leak's stack, so that a pattern names
# the allocator: Node.js and its libraries leak at exit, the addon must not.
cat >"$build/leaks.supp" <<'EOF'
leak:bin/node
leak:libstdc++
leak:libc.so
leak:ld-linux
leak:libdl
leak:<unknown module>
EOF

export WEB_LOCKS_BINARY=$build/build/Release/web_locks.node
export LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
export ASAN_OPTIONS=malloc_context_size=2:detect_leaks=1:abort_on_error=1:allocator_may_return_null=1
# The core's pools poison the memory that they keep, and link it there (src/core/pool.h).
export LSAN_OPTIONS=suppressions=$build/leaks.supp:print_suppressions=0:use_poisoned=1
export UBSAN_OPTIONS=print_stacktrace=1

if [ $# -eq 0 ]; then
  # These folders and files reach native code, each in its own way. Tests of JavaScript alone are
  # left out, and so are tests that make the same calls with more JavaScript around them, and
  # package/memory, which limits the address space, of which the sanitizer needs terabytes.
  set -- test/binding/calls.test.js test/extensions/sync.test.js test/model/{hostile,model}.test.js \
    test/standard/{collected,events,stack}.test.js test/torture/endurance.test.js \
    test/host/{files,later,life,processes,register,stack}.test.js \
    test/threads/{blocking,buckets,liveness,overtaken-events,spec-in-a-worker,termination}.test.js
fi
# Tests that cannot run in such a process skip themselves.
export WEB_LOCKS_SANITIZED=1
# This is slow, so random tests make fewer runs.
export MODEL_RUNS=${MODEL_RUNS:-100} HOSTILE_RUNS=${HOSTILE_RUNS:-100} STACK_FRAMES=${STACK_FRAMES:-20}
WEB_LOCKS_TEST_LIMIT=600 node test/run.js "$@"
