#!/usr/bin/env bash
# Installs what the examples need and this machine does not have yet. Nothing is
# done, and nothing said, when all is there. Versions are pinned in requirements.txt
# and package-lock.json of each example.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

GRPCURL=v1.9.4
venv=.venv
tools=../.tools

say() { echo "examples/install.sh: $*" >&2; }
fail() { say "$*"; exit 1; }

# log_of runs a command, and shows what it printed only when it fails.
log_of() {
    local log
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        fail "failed: $*"
    fi
    rm -f "$log"
}

# system installs the distribution's packages of the programs that are missing.
system() {
    local missing=()
    command -v python3 >/dev/null || missing+=(python3)
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    command -v node >/dev/null || missing+=(nodejs)
    command -v npm >/dev/null || missing+=(npm)
    command -v curl >/dev/null || missing+=(curl)
    command -v jq >/dev/null || missing+=(jq)
    command -v php >/dev/null || missing+=(php-cli)
    php -r 'exit(extension_loaded("curl") ? 0 : 1);' 2>/dev/null || missing+=(php-curl)
    command -v chromium >/dev/null || missing+=(chromium)
    ((${#missing[@]})) || return 0

    local as=()
    if [[ $(id -u) != 0 ]]; then
        as=(sudo -n)
        command -v sudo >/dev/null && sudo -n true 2>/dev/null || as=()
        ((${#as[@]})) || fail "missing: ${missing[*]}. As root: apt-get install --no-install-recommends ${missing[*]}"
    fi
    command -v apt-get >/dev/null || fail "missing: ${missing[*]}. Install them with your system's package manager"
    say "apt-get install ${missing[*]}"
    log_of "${as[@]}" apt-get -o Acquire::Retries=5 update -q
    log_of "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install -qy --no-install-recommends "${missing[@]}"
}

# python makes the virtual environment of the Python examples. The stamp is written
# last: whatever was interrupted is done again.
python() {
    local wanted
    wanted=$(cat python-*/requirements.txt; python3 --version)
    [[ -f $venv/stamp && $(cat $venv/stamp) == "$wanted" ]] && $venv/bin/python -c 'import grpc_tools, aioquic' 2>/dev/null && return
    say "pip install into examples/$venv"
    log_of python3 -m venv --clear $venv
    log_of $venv/bin/pip install --quiet --disable-pip-version-check $(printf -- '-r %s ' python-*/requirements.txt)
    printf '%s\n' "$wanted" >$venv/stamp
}

# node fills the node_modules of one example.
node_modules() {
    local stamp=$1/node_modules/.stamp
    cmp -s "$1/package-lock.json" "$stamp" && return
    say "npm ci in examples/$1"
    log_of npm ci --prefix "$1" --no-audit --no-fund --ignore-scripts
    cp "$1/package-lock.json" "$stamp"
}

# grpcurl builds the program, which is no dependency of the module.
grpcurl() {
    [[ -x $tools/grpcurl-$GRPCURL ]] && return
    say "go install grpcurl $GRPCURL into .tools"
    mkdir -p $tools
    GOBIN=$(cd $tools && pwd) log_of go install "github.com/fullstorydev/grpcurl/cmd/grpcurl@$GRPCURL"
    mv $tools/grpcurl "$tools/grpcurl-$GRPCURL"
}

system
python
node_modules node-grpc
node_modules browser
grpcurl
