#!/usr/bin/env bash
# Runs the steps of the Dockerfile without a daemon: in a root of its own with a fresh Debian and its
# Python, and a copy of what is committed. Takes minutes: all packages are installed anew. Needs
# root, debootstrap and Debian's packages; pip is set up as it is outside.
#
#   bash tests/cluster/container.sh
#
# The last line is "container: planned". Exit status 77, with a reason: it cannot run here.
set -euo pipefail

cannot() {
    printf 'not run: %s\n' "$1"
    exit 77
}
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [ $# = 0 ]; then
    [ "$(id -u)" = 0 ] || cannot "it needs root"
    command -v debootstrap >/dev/null || cannot "debootstrap is not installed"
    unshare --mount true || cannot "no mounts are allowed"
    place=$(mktemp -d "${TMPDIR:-/tmp}/container-test.XXXXXX")
    trap 'rm -rf "$place"' EXIT # the mounts are gone, with the process that made them
    unshare --mount --propagation private bash "$0" "$place"
    exit
fi

place=$1
steps=$(sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' "$project/Dockerfile")
[[ $steps =~ FROM\ python:(3\.[0-9]+)-slim-([a-z]+) ]]
version=${BASH_REMATCH[1]} suite=${BASH_REMATCH[2]}
debootstrap --variant=minbase --include=ca-certificates,python3-venv "$suite" "$place" >&2
mount -t proc proc "$place/proc"
mount --rbind /dev "$place/dev"

settings=()
inside() { # folder, command
    env -i HOME=/root LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin \
        "${settings[@]}" chroot "$place" bash -c "cd '$1' && $2" </dev/null
}
inside / "python$version -m venv /usr/local" # as in the base image: python and pip are of there

# Where packages come from, and the folders and files that these settings name.
while IFS='=' read -r key value; do
    key=PIP_$(tr a-z- A-Z_ <<<"${key##*.}") value=$(tr -d \' <<<"${value//\\n/ }")
    settings+=("$key=$value")
    for named in $value; do
        [[ $named != file://* ]] || named=$(dirname "${named#file://}") # its files lie beside it
        [[ $named == /* && -e $named ]] || continue
        mkdir -p "$place${named%/*}"
        if [ -d "$named" ]; then
            mkdir -p "$place$named"
            mount -o bind,ro "$named" "$place$named"
        else
            cp "$named" "$place$named"
        fi
    done
done < <(python3 -m pip config list)

folder=/
mkdir "$place/project"
git -C "$project" archive HEAD | tar -x -C "$place/project"
while IFS= read -r step; do
    words=${step#* }
    case $step in
    COPY*)
        read -r from to <<<"$words"
        cp "$place/project/$from" "$place$to"
        ;;
    RUN*) inside "$folder" "$words" >&2 ;;
    ENV*) settings+=("$words") ;;
    WORKDIR*) folder=$words ;;
    CMD*) command=$(tr -d '[],"' <<<"$words") ;;
    esac
done <<<"$steps"

[ -z "$(ls -A "$place/tmp")" ] || {
    echo "left in /tmp of the image: $(ls "$place/tmp")" >&2
    exit 1
}
inside "$folder" "$command --dry-run --quiet all"
inside "$folder" "python -m private_graphs --version"
echo "container: planned"
