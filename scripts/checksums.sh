#!/usr/bin/env bash
# Writes the checksums of all binaries in prebuilds/, and prints them.
set -eu
cd "$(dirname "$0")/../prebuilds"
find . -name '*.node' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS
cat SHA256SUMS
