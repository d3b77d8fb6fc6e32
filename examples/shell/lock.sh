#!/usr/bin/env bash
# Locks from a shell: curl and jq. (For real scripts there is `pathlock run`, which
# also renews the lease and ends the command when the lock is lost.)
set -euo pipefail

web=${PATHLOCKD_WEB:-https://127.0.0.1:50443}
ca=${PATHLOCKD_CA:-pathlockd-data/dev-cert.pem}
run=$$-$RANDOM
path=example:/shell/$run

# call RPC FILTER [JQ ARGUMENT]...: what the filter picks from the answer. jq puts its
# named arguments (--arg, --argjson) together as the request.
call() {
    local rpc=$1 filter=$2 body
    shift 2
    body=$(jq -nc '$ARGS.named' "$@")
    curl -sS --fail-with-body --max-time 10 --cacert "$ca" -H 'Content-Type: application/json' \
        -d "$body" "$web/v1/$rpc" | jq -r "$filter"
}

expect() {
    [[ $2 == "$3" ]] || { echo "$1: got $2, wanted $3" >&2; exit 1; }
    echo "$1: $2"
}

lock() { # OWNER: the status, and who is in the way
    call acquire '[.status, .owner] | join(" ")' --arg ownerId "$1-$run" --argjson ttlMs 10000 \
        --argjson requests "[{\"path\": \"$path\"}]"
}

unlock() {
    call release . --arg ownerId "$1-$run" --argjson requests "[{\"path\": \"$path\"}]" >/dev/null
}

holder() { call inspectPath .writeOwner --arg path "$path"; }

expect "health" "$(curl -sS --max-time 10 --cacert "$ca" "$web/v1/health" | jq -r .detail)" ready
expect "alice asks" "$(lock alice)" "ACQUIRE_STATUS_OK "
expect "alice renews" "$(call renew .status --arg ownerId "alice-$run" --argjson ttlMs 10000)" RENEW_STATUS_OK
expect "who holds it" "$(holder)" "alice-$run"
expect "bob asks" "$(lock bob)" "ACQUIRE_STATUS_QUEUED alice-$run"

# Events, as they come: -N keeps curl from collecting them. With the first line of the
# stream it is live: nothing is missed from there on.
exec {events}< <(exec curl -sSN --max-time 10 --cacert "$ca" "$web/v1/events/sse?owner_id=bob-$run")
curl=$!
read -r -t 10 -u "$events"
unlock alice
while read -r -t 10 -u "$events" field data; do
    [[ $field == data: ]] && break
done
kill "$curl"
expect "bob is told" "$(jq -r '.type, .ownerId' <<<"$data" | paste -sd' ')" "grant bob-$run"

expect "bob asks again" "$(lock bob)" "ACQUIRE_STATUS_OK "
unlock bob
expect "who holds it now" "$(holder)" ""
