#!/usr/bin/env bash
# Really runs docker-compose.yml: build, up, a first action, a killed gateway, down and up again, nothing lost.
#
#   tests/containers/run.sh [AIP_BINARY]      (default: target/release/aip, then target/debug/aip)
#
# Uses the Docker engine that answers; as root it starts one for itself otherwise. Without any it says so and exits 0.
# The image gets the given binary and nats-server; its base is pulled, or made with debootstrap where no registry
# can be reached. Everything it makes is removed at the end, but for the base image and target/prebuilt.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly WAIT_S=90
work=$(mktemp -d)
engine=""

say() { printf '%4ss  %s\n' "$SECONDS" "$*"; }
skip() { say "skipped: $*"; exit 0; }
fail() { say "FAILED: $*"; exit 1; }

finish() {
  local status=$?
  if [ "$status" != 0 ] && [ -n "${compose:-}" ]; then $compose logs --tail=20 2>&1 || true; fi
  if [ -n "${compose:-}" ]; then $compose down -v >/dev/null 2>&1 || true; docker rmi "$AIP_IMAGE" >/dev/null 2>&1 || true; fi
  if [ -n "$engine" ]; then
    docker image prune -f >/dev/null 2>&1 || true
    kill "$engine" 2>/dev/null && wait "$engine" || true
    ip link delete docker0 2>/dev/null || true
  fi
  rm -rf "$work"
  exit "$status"
}
trap finish EXIT

start_engine() {
  docker info >/dev/null 2>&1 && return
  [ "$(id -u)" = 0 ] && command -v dockerd >/dev/null || return 1
  mkdir "$work/engine"
  export DOCKER_HOST="unix://$work/engine/socket"
  # Its data is kept: it holds the base image, which takes long to make. The machine's packet filter is left alone:
  # ports on loopback and the way from container to container need none of it.
  dockerd --iptables=false --data-root "${XDG_CACHE_HOME:-$HOME/.cache}/aip/docker" \
    --exec-root "$work/engine/exec" --pidfile "$work/engine/pid" \
    --host "$DOCKER_HOST" >"$work/engine/log" 2>&1 &
  engine=$!
  for _ in $(seq 100); do
    docker info >/dev/null 2>&1 && return
    kill -0 "$engine" 2>/dev/null || break
    sleep 0.2
  done
  tail -n 3 "$work/engine/log"
  return 1
}

# Names a base image with the C library that the binary wants.
base_image() {
  local image
  for image in aip-base:bookworm debian:bookworm-slim; do
    docker image inspect "$image" >/dev/null 2>&1 && { echo "$image"; return; }
  done
  if timeout 60 docker pull -q debian:bookworm-slim >/dev/null 2>&1; then echo debian:bookworm-slim; return; fi
  [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null || return 1
  debootstrap --variant=minbase bookworm "$work/base" >"$work/debootstrap.log" 2>&1 || return 1
  tar -C "$work/base" --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' -c . |
    docker import - aip-base:bookworm >/dev/null
  echo aip-base:bookworm
}

# Curl with the API key; fails on any status but success.
http() { curl -sS --fail-with-body --max-time 30 -H "Authorization: Bearer $key" "$@"; }

# Asks until the answer holds the wanted text.
until_answered() {
  local what=$1 wanted=$2 answer="" until=$((SECONDS + WAIT_S))
  shift 2
  while [ "$SECONDS" -lt "$until" ]; do
    answer=$(http "$@" 2>&1) && [[ $answer == *"$wanted"* ]] && { echo "$answer" >"$work/answer"; say "$what"; return; }
    sleep 0.5
  done
  fail "$what: not within $WAIT_S s, the last answer was: $answer"
}

action() {
  until_answered "$1" '"status":"completed"' "$url/aip/v1/actions" -H 'Content-Type: application/json' -d "$2"
}

for tool in docker curl python3; do command -v "$tool" >/dev/null || skip "there is no $tool"; done
if docker compose version >/dev/null 2>&1; then compose="docker compose"
elif command -v docker-compose >/dev/null; then compose="docker-compose"
else skip "there is no Compose"; fi
tool=$compose compose=""
start_engine || skip "no container engine can be started here"
binary=${1:-}
for built in target/release/aip target/debug/aip; do [ -z "$binary" ] && [ -x "$built" ] && binary=$built; done
[ -x "$binary" ] || fail "there is no binary: cargo build -p aip"
base=$(base_image) || skip "no base image can be pulled or made here"
say "engine $(docker version --format '{{.Server.Version}}'), $tool, base $base"

mkdir -p target/prebuilt
strip -o target/prebuilt/aip "$binary" 2>/dev/null || cp "$binary" target/prebuilt/aip
cp "$("$binary" nats-server)" target/prebuilt/nats-server
cp /etc/ssl/certs/ca-certificates.crt target/prebuilt/
export COMPOSE_PROJECT_NAME="aip-test-$$" AIP_IMAGE="aip-test-$$" AIP_BUILD_BASE=$base AIP_RUN_BASE=$base AIP_BINARIES=prebuilt
AIP_HTTP_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export AIP_HTTP_PORT
url=http://127.0.0.1:$AIP_HTTP_PORT
compose=$tool
container() { $compose ps -q "$1"; }

$compose build setup >"$work/build.log" 2>&1 || { tail -n 20 "$work/build.log"; fail "the image cannot be built"; }
say "image built: $(docker image inspect --format '{{.Size}}' "$AIP_IMAGE" | awk '{printf "%d", $1 / 1048576}') MiB, its base $(
  docker image inspect --format '{{.Size}}' "$base" | awk '{printf "%d", $1 / 1048576}') MiB"

$compose up -d >"$work/up.log" 2>&1 || { tail -n 20 "$work/up.log"; fail "up"; }
for service in nats gateway; do
  health=$(docker inspect --format '{{.State.Health.Status}}' "$(container $service)")
  [ "$health" = healthy ] || fail "$service is $health"
done
say "up: nats and gateway are healthy"
[ "$(docker exec "$(container gateway)" id -u)" != 0 ] || fail "the gateway runs as root"
if docker exec "$(container gateway)" touch /usr/local/bin/x 2>/dev/null; then fail "the root file system can be written"; fi
key=$(docker exec "$(container gateway)" cat /etc/aip/keys/api-key)
[ "$(curl -s -o /dev/null -w '%{http_code}' "$url/aip/v1/manifest" -H 'Authorization: Bearer wrong')" = 401 ] ||
  fail "a wrong API key is not refused"

search='{"capability_id": "cap:restaurant:table:search", "input": {"date": "2027-03-14", "time": "19:00", "party": 2}}'
action "a first action is completed" "$search"
booking='{"capability_id": "cap:restaurant:booking:create", "idempotency_key": "containers", "input": {"restaurant":
  "chez-nous", "table": "t3", "date": "2027-03-14", "time": "19:00", "party": 4, "guest_name": "Jordan"}}'
action "a table is booked" "$booking"
booked=$(grep -o 'book_[0-9a-f]*' "$work/answer" | head -n 1)
id=$(grep -o 'act_[0-9a-f]*' "$work/answer" | head -n 1)
[ -n "$booked" ] && [ -n "$id" ] || fail "the answer names no booking: $(cat "$work/answer")"
docker exec "$(container gateway)" aip action call cap:restaurant:table:search \
  '{"date": "2027-03-14", "time": "19:00", "party": 2}' >/dev/null 2>&1 || fail "the command line inside, over NATS"
say "the command line inside calls it over NATS, signed"

# The engine takes `docker kill` for an operator's wish; only a process that dies by itself is started again.
if [ "$(id -u)" = 0 ]; then kill -9 "$(docker inspect --format '{{.State.Pid}}' "$(container gateway)")"
else docker kill "$(container gateway)" >/dev/null && $compose up -d >/dev/null 2>&1; fi
say "the gateway is killed"
action "it came back, and an action is completed" "$search"

$compose down >/dev/null 2>&1
say "down"
$compose up -d >"$work/up.log" 2>&1 || { tail -n 20 "$work/up.log"; fail "up again"; }
say "up again"
[ "$(docker exec "$(container gateway)" cat /etc/aip/keys/api-key)" = "$key" ] || fail "the API key has changed"
until_answered "the booking's result is still there" "$booked" "$url/aip/v1/actions/$id/result"
action "the same key books nothing twice" "$booking"
grep -q "$booked" "$work/answer" || fail "another booking: $(cat "$work/answer")"

$compose down -v >/dev/null 2>&1 || fail "down -v"
[ -z "$(docker volume ls -q --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME")" ] || fail "volumes are left"
say "down, with its volumes: passed"
