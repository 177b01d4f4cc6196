#!/bin/sh
# Installs the pinned packages and this project into a virtual environment (default: .venv) with
# Python 3.11 or 3.12. Does nothing when that is already done for the same lock.
set -eu
cd "$(dirname "$0")/.."
venv=${1:-.venv}

stop() {
    printf '%s\n' "private-graphs: $1" >&2
    exit 1
}

# Prints "3.11" for an interpreter that really runs, nothing otherwise (a version manager's shim
# may exist without the version behind it).
version_of() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true
}

find_python() {
    found='' without_venv=''
    for candidate in ${PYTHON:-python3.11 python3.12 python3}; do
        version=$(version_of "$candidate")
        [ -n "$version" ] || continue
        found="$found $candidate ($version)"
        case $version in 3.11 | 3.12) ;; *) continue ;; esac
        if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            python=$candidate
            return
        fi
        without_venv=${without_venv:-$version}
    done
    if [ -n "$without_venv" ]; then
        stop "Python $without_venv is here, but without its venv module.
On Debian or Ubuntu: sudo apt-get install python$without_venv-venv"
    fi
    stop "needs Python 3.11 or 3.12 with venv; found:${found:- no Python at all}.
On Debian 12: sudo apt-get install python3.11-venv; on Ubuntu 24.04: python3.12-venv"
}

# A virtual environment whose making was interrupted has no pip: it is made anew.
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    find_python
    printf '%s\n' "Creating $venv with $("$python" --version 2>&1)"
    "$python" -m venv --clear "$venv"
fi
version=$(version_of "$venv/bin/python")
case $version in
3.11 | 3.12) ;;
*) stop "$venv has Python ${version:-that does not run}; needs 3.11 or 3.12. Remove $venv and try again" ;;
esac

stamp="$venv/.installed"
wanted=$(cat requirements.lock pyproject.toml | sha256sum | cut -c1-64)-$version-$(pwd)
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi
rm -f "$stamp"
printf '%s\n' "Installing $(grep -c == requirements.lock) packages into $venv (some minutes the first time)"
# pip says nothing but errors; a line a minute shows that it is at work.
(
    minutes=0
    while sleep 60 >/dev/null 2>&1; do
        minutes=$((minutes + 1))
        printf '%s\n' "Still installing after $minutes min"
    done
) &
beat=$!
trap 'kill "$beat" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
"$venv/bin/python" -m pip install --disable-pip-version-check --no-input --quiet \
    --no-deps --require-hashes -r requirements.lock
# On Linux the CUDA packages that torch, whose hash was checked, pins; else nothing is left to do.
"$venv/bin/python" -m pip install --disable-pip-version-check --no-input --quiet torch
"$venv/bin/python" -m pip install --disable-pip-version-check --no-input --quiet \
    --no-deps --no-build-isolation -e .
printf '%s' "$wanted" >"$stamp"
printf '%s\n' "Installed into $venv"
