#!/usr/bin/env bash
# The JavaScript tests with the addon and the core built as a checked build under AddressSanitizer and
# UBSan: agent teardown, late wake-ups and uses after free show, every invariant is checked after
# every turn of the core, and what the addon itself leaks is reported.
#
#   run.sh [test file …]
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
build=$root/build/asan

# A copy of the sources, so that the ordinary build stays as it is.
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

# Only the allocating function and its caller are kept of each leak's stack, so that a pattern names
# who allocated: Node.js and what it brings leaks at exit, the addon must not.
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
# The pools of the core poison what they keep, and it is chained there (src/core/pool.h).
export LSAN_OPTIONS=suppressions=$build/leaks.supp:print_suppressions=0:use_poisoned=1
export UBSAN_OPTIONS=print_stacktrace=1

if [ $# -eq 0 ]; then
  # Each folder or file that reaches native code in a way in which no other one here does. Of the tests
  # about JavaScript alone none, and none that make the calls of others with more JavaScript around.
  # Not package/memory, which limits the address space, of which the sanitizer takes terabytes.
  set -- test/binding/calls.test.js test/extensions/sync.test.js test/model/{hostile,model}.test.js \
    test/standard/{collected,events,stack}.test.js test/torture/endurance.test.js \
    test/host/{files,later,life,processes,register,stack}.test.js \
    test/threads/{blocking,buckets,liveness,overtaken-events,spec-in-a-worker,termination}.test.js
fi
# What cannot be tested in such a process skips itself by this.
export WEB_LOCKS_SANITIZED=1
# It is slow: of what is repeated, less. In full that is in the README's test command.
export MODEL_RUNS=${MODEL_RUNS:-100} HOSTILE_RUNS=${HOSTILE_RUNS:-100} STACK_FRAMES=${STACK_FRAMES:-20}
WEB_LOCKS_TEST_LIMIT=600 node test/run.js "$@"
