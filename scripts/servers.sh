#!/usr/bin/env bash
# Unpacks PostgreSQL, Redis, Valkey, etcd and pgbouncer of another Debian suite into a folder, with
# all libraries that they need, and changes nothing else on the machine. Prints the variables by
# which the tests find them:
#
#   env $(scripts/servers.sh trixie build/servers/trixie redis-server) \
#       npm run test:conformance -- redis
#
# usage: servers.sh SUITE DIR [PACKAGE…]
#   PACKAGE: redis-server, valkey-server, etcd-server, pgbouncer, postgresql-17 …; by default the
#            first four and `postgresql`. If redis-server and valkey-server are unpacked,
#            REDIS_SERVER names the first.
# Needs apt, dpkg-deb, and patchelf. The archive is the one that the machine's apt uses.
set -euo pipefail

suite=$1 folder=$(mkdir -p "$2" && cd "$2" && pwd)
shift 2
packages=("$@")
[ $# -gt 0 ] || packages=(redis-server valkey-server etcd-server pgbouncer postgresql)

# A state of apt of its own, in which no package is installed, so that it lists every library.
state=$folder/.apt
mkdir -p "$state"/{lists/partial,cache/archives/partial,parts}
: >"$state/status"
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | sort -u | head -n 1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main" >"$state/sources.list"
options=(
  -o "Dir::Etc::SourceList=$state/sources.list" -o "Dir::Etc::SourceParts=$state/parts"
  -o "Dir::State=$state" -o "Dir::State::Lists=$state/lists" -o "Dir::State::Status=$state/status"
  -o "Dir::Cache=$state/cache" -o APT::Install-Recommends=false -o APT::Sandbox::User=root
)
apt-get -qq "${options[@]}" update >&2
apt-get -qq -y "${options[@]}" --download-only install "${packages[@]}" >&2

for package in "$state"/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" |
    tar -x -C "$folder" --exclude './usr/share/doc' --exclude './usr/share/man' --exclude './usr/share/locale'
  rm "$package"
done

# The programs use the loader and the libraries of the folder, whatever the machine has.
libraries=$folder/usr/lib/x86_64-linux-gnu
loader=$(find "$folder/usr" -name ld-linux-x86-64.so.2 -print -quit)
find "$folder/usr" -type f -perm -u+x ! -name '*.so*' | while read -r program; do
  patchelf --print-interpreter "$program" >/dev/null 2>&1 || continue # a script, or static
  # Unlike a RUNPATH, an RPATH is also that of the libraries.
  patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$program"
done

first() { # prints NAME=FILE for the first file that is there
  local name=$1 file
  shift
  for file; do [ -e "$file" ] && echo "$name=$file" && return; done
  return 0
}
first POSTGRES_BIN "$folder"/usr/lib/postgresql/*/bin
first REDIS_SERVER "$folder/usr/bin/redis-server" "$folder/usr/bin/valkey-server"
first ETCD_SERVER "$folder/usr/bin/etcd"
first PGBOUNCER "$folder/usr/sbin/pgbouncer"
# With libfaketime, of this suite or of the machine, newer Redis and Valkey servers hang or crash
# when they start. So the tests that set clocks are skipped.
echo FAKETIME=
