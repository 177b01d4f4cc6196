#!/usr/bin/env bash
# Runs the steps of the Dockerfile without a daemon: in an empty environment, with a home of its own
# and a copy of what is committed, its Python being that of the base image. The system's packages
# are looked up, not installed. Takes minutes: the pinned packages are installed anew.
#
#   bash tests/cluster/container.sh
#
# The last line is "container: planned". Exit status 77, with a reason: it cannot run here.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
steps=$(sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' "$root/Dockerfile")
version=$(sed -n 's/^FROM python:\(3\.[0-9]*\)-.*/\1/p' <<<"$steps")

cannot() {
    printf 'not run: %s\n' "$1"
    exit 77
}
"python$version" -c 'import venv, ensurepip' 2>/dev/null || cannot "no python$version with venv"

place=$(mktemp -d "${TMPDIR:-/tmp}/container-test.XXXXXX")
trap 'rm -rf "$place"' EXIT
mkdir "$place/home" "$place/tmp" "$place/project"
"python$version" -m venv "$place/usr"
git -C "$root" archive HEAD | tar -x -C "$place/project"

inside() { # folder, command
    env -i HOME="$place/home" PATH="$place/usr/bin:/usr/bin:/bin" LANG=C.UTF-8 \
        "${pip[@]}" "${settings[@]}" bash -c "cd '$1' && $2"
}
settings=()
mapfile -t pip < <(env | grep '^PIP_' || true) # where packages come from
while IFS= read -r step; do
    words=${step#* }
    case $step in
    COPY*)
        read -r from to <<<"$words"
        cp "$place/project/$from" "$place$to"
        ;;
    *apt-get*)
        for package in $(sed -n 's/.*--no-install-recommends \([^&]*\)&&.*/\1/p' <<<"$words"); do
            dpkg -s "$package" >/dev/null 2>&1 || apt-cache show "$package" >/dev/null 2>&1 ||
                cannot "the system does not know its package $package"
        done
        ;;
    RUN*) inside "$place" "${words//\/tmp\//$place/tmp/}" ;;
    ENV*) settings+=("$words") ;;
    esac
done <<<"$steps"

[ -z "$(ls -A "$place/tmp")" ] || {
    echo "left in /tmp of the image: $(ls "$place/tmp")" >&2
    exit 1
}
command=$(sed -n 's/^CMD \[\(.*\)\]/\1/p' <<<"$steps" | tr -d '",')
inside "$place/project" "$command --dry-run --quiet all"
inside "$place/project" "python -m private_graphs --version"
echo "container: planned"
