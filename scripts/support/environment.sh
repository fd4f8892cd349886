# Sourced by the scripts beside this folder: where things are, and how to get them on a fresh machine.
# shellcheck shell=bash

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
VENV="$ROOT/.venv"
BUILD="$ROOT/.build"
PYTHON="$VENV/bin/python"
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() {
    printf 'leveret: %s\n' "$*" >&2
}

find_python() {
    local name
    for name in "${LEVERET_PYTHON:-}" python3 python3.11 python3.12 python3.13 python3.14 python; do
        if [[ -n "$name" ]] && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done

    say "Python 3.11 or later is needed and was not found (LEVERET_PYTHON names one elsewhere)"
    return 1
}

# ensure_environment run|dev: make .venv hold what requirements/<name>.txt pins, doing nothing when it does.
ensure_environment() {
    mkdir -p "$BUILD"
    # The lock closes with the subshell. Without flock (macOS) two first runs at once are on their own.
    (
        if command -v flock >/dev/null; then
            flock 9
        fi

        install_requirements "$1" 9>&-
    ) 9>"$BUILD/environment.lock"
}

install_requirements() {
    local wanted stamp="$VENV/installed-$1.txt" python
    wanted="$(cat "$ROOT/requirements/run.txt" "$ROOT/requirements/$1.txt")"
    if [[ -x "$PYTHON" && -f "$stamp" && "$(cat "$stamp")" == "$wanted" ]]; then
        return
    fi

    python="$(find_python)"
    say "installing requirements/$1.txt into .venv"
    if [[ ! -x "$PYTHON" ]] && ! "$python" -m venv --clear "$VENV" >&2; then
        say "$python cannot make a virtual environment (on Debian: apt install python3-venv)"
        return 1
    fi

    "$PYTHON" -m pip install --quiet --requirement "$ROOT/requirements/$1.txt" >&2
    printf '%s' "$wanted" >"$stamp"
}
