#!/bin/sh
# Fills the corpora from the examples and test vectors, so that fuzzing starts where the interesting inputs are.
# Running it again only adds what is missing; what the fuzzer found itself stays.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
corpus="$here/corpus"
mkdir -p "$corpus/validate" "$corpus/lines" "$corpus/did" "$corpus/subject"

# the name is the content's hash, as libFuzzer names its own finds: a seed that is there twice is there once
add() {
    draft=$(mktemp "$corpus/draft.XXXXXX")
    cat >"$draft"
    mv "$draft" "$corpus/$1/$(sha1sum "$draft" | cut -d' ' -f1)"
}

find "$root/schemas/examples" -name '*.json' | sort | while read -r example; do
    add validate <"$example"
done

# one input for each message type: its examples, a line each, behind the byte that says how much is read at a time
for type in "$root"/schemas/examples/*/; do
    [ -d "$type" ] || continue
    {
        printf z
        find "$type" -name '*.json' | sort | while read -r example; do
            tr -d '\r\n' <"$example"
            echo
        done
    } | add lines
done

vectors="$root/shared/crypto/tests/vectors"
grep -o '"signed": {.*}' "$vectors/envelopes.json" | sed 's/^"signed": //; s/}$//' | while read -r envelope; do
    printf '%s' "$envelope" | add validate
    printf 'z%s\n%s' "$envelope" "$envelope" | add lines
done
grep -o 'did:key:[A-Za-z0-9#]*' "$vectors/did.json" | while read -r did; do
    printf '%s' "$did" | add did
done

# what follows the trust domain; the target adds the beginning
for rest in gateway.v1.aip_core_v1_action sandbox-restaurant.v2.aip_core_v1_action gateway-ledger.v1.0 \
    gateway-queue.v1.aip_core_v1_action gateway-chunks.v1.act_1 gateway-events.v1.action_completed \
    gateway.v1.stream.corr_1 'gateway.v1.*' 'gateway.v1.>' gateway..v1 gateway-ledger.v1.007; do
    printf '%s' "$rest" | add subject
done

for target in validate lines did subject; do
    echo "$target: $(find "$corpus/$target" -type f | wc -l) inputs"
done
