#!/usr/bin/env bash
# Runs the pipeline on a real Slurm of one node that this script starts, with failures in the middle,
# and compares its rows with those of a local run. As root, on Debian or Ubuntu with
#   apt-get install --no-install-recommends slurmctld slurmd slurm-client munge
#
#   bash tests/cluster/slurm.sh                      the whole demonstration
#   bash tests/cluster/slurm.sh exhibits=lrec2022.table1 ...  a part of it: arguments are those of --config
#
# The last line is "rows equal: N". Exit status 77, with a reason: it cannot run here.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=$(command -v "${PYTHON:-$root/.venv/bin/python}" || true)

cannot() {
    printf 'not run: %s\n' "$1"
    exit 77
}

failed() {
    printf 'failed: %s\n' "$1" >&2
    tail -n 10 "$place"/*.log >&2 || true
    exit 1
}

[ "$(id -u)" = 0 ] || cannot "the daemons of Slurm and the configuration in /etc/slurm need root"
for program in munged slurmctld slurmd sbatch squeue scancel sinfo; do
    command -v "$program" >/dev/null || cannot "$program is not installed (Debian: apt-get install slurmctld slurmd slurm-client munge)"
done
[ -n "$python" ] || cannot "no Python in .venv; make install, or PYTHON=..."
"$python" -c 'import snakemake_executor_plugin_slurm' 2>/dev/null || cannot "snakemake-executor-plugin-slurm is not installed; make install"
if grep -qs '/slurm-test\.' /etc/slurm/slurm.conf; then # of a run of this script that was killed
    rm -f /etc/slurm/slurm.conf /etc/slurm/gres.conf
fi
[ ! -e /etc/slurm/slurm.conf ] || cannot "/etc/slurm/slurm.conf exists: this machine has a Slurm of its own"

place=$(mktemp -d "${TMPDIR:-/tmp}/slurm-test.XXXXXX")
node=$(hostname -s)

end() {
    status=$?
    trap - EXIT
    # Ids of what was started here: the node knows those of jobs, each below a slurmstepd of its own;
    # the others wrote theirs.
    left=$(timeout 10 scontrol listpids 2>/dev/null | awk '$1 ~ /^[0-9]+$/ {print $1}' || true)
    for id in $left; do
        parent=$(ps -o ppid= -p "$id" || true)
        [ "$(ps -o comm= -p "${parent:-0}" || true)" != slurmstepd ] || left="$left $parent"
    done
    timeout 10 scancel --quiet --me 2>/dev/null || true
    for name in snakemake slurmd slurmctld munged; do
        [ -f "$place/$name.pid" ] || continue
        left="$left $(cat "$place/$name.pid")"
        kill "$(cat "$place/$name.pid")" 2>/dev/null || true
    done
    for _ in $(seq 20); do # jobs write their last words, daemons read slurm.conf to the end
        left=$(for id in $left; do ! kill -0 "$id" 2>/dev/null || echo "$id"; done)
        [ -n "$left" ] || break
        sleep 1
    done
    [ -z "$left" ] || kill -9 $left 2>/dev/null || true
    rm -f /etc/slurm/slurm.conf /etc/slurm/gres.conf
    if [ "$status" = 0 ]; then rm -rf "$place" 2>/dev/null || { sleep 3; rm -rf "$place"; }; else printf 'logs: %s\n' "$place" >&2; fi
    exit "$status"
}
trap end EXIT
trap 'exit 143' TERM INT

# --- a Slurm of one node ---------------------------------------------------------------------

mkdir -p "$place/state" "$place/spool" "$place/munge" /etc/slurm
chmod 755 "$place"
chmod 700 "$place/munge"
head -c 128 /dev/urandom >"$place/munge/key"
chmod 400 "$place/munge/key"
cat >/etc/slurm/slurm.conf <<EOF
ClusterName=test
SlurmctldHost=$node(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$place/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmctldPort=26817
SlurmdPort=26818
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=$place/state
SlurmdSpoolDir=$place/spool
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd.pid
SlurmctldLogFile=$place/slurmctld.log
SlurmdLogFile=$place/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdTimeout=300
MinJobAge=600
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# without cgroups: memory is looked at every second, and a job that has too much is killed
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
GresTypes=gpu
NodeName=$node NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$(($(awk '/MemTotal/ {print $2}' /proc/meminfo) / 1024)) Gres=gpu:1 State=UNKNOWN
# a job that no node can ever run is refused, and not queued for ever
EnforcePartLimits=ALL
PartitionName=main Nodes=$node Default=YES MaxTime=INFINITE State=UP
EOF
printf 'NodeName=%s Name=gpu File=/dev/null\n' "$node" >/etc/slurm/gres.conf

start_slurmd() {
    slurmd -N "$node"
}

munged --force --key-file="$place/munge/key" --socket="$place/munge/socket" \
    --pid-file="$place/munged.pid" --log-file="$place/munged.log" --seed-file="$place/munge/seed"
slurmctld
start_slurmd
idle=
for _ in $(seq 60); do
    idle=$(timeout 5 sinfo --noheader --format=%T 2>/dev/null || true)
    [ "$idle" = idle ] && break
    sleep 1
done
[ "$idle" = idle ] || failed "the node of the new Slurm is '${idle:-unknown}' after a minute"
echo "Slurm is up: $(timeout 5 sinfo --version), node $node with a GPU that is /dev/null"

# --- the same run twice ----------------------------------------------------------------------

export PYTHONPATH="$root/src" OMP_NUM_THREADS=1 PATH="$(dirname "$python"):$PATH"
export PRIVATE_GRAPHS_MIRROR=

run() { # folder, arguments of Snakemake
    mkdir "$place/$1"
    for part in Snakefile config.yaml workflow profiles envs recorded; do
        cp -r "$root/$part" "$place/$1/"
    done
    mkdir "$place/$1/data"
    cp "$root/data/sources.yaml" "$place/$1/data/"
    cd "$place/$1"
    shift
    exec "$python" -m snakemake "$@" </dev/null
}
config=()
[ $# = 0 ] || config=(--config "$@")

echo "Local run ($*)"
started=$SECONDS
(run local --cores all "${config[@]}") >"$place/local.log" 2>&1 || failed "the local run"
echo "Local run: $((SECONDS - started)) s"

# The first attempt at the exhibits and pages has too little memory. Every batch of runs asks for a GPU.
too_little="60 if attempt == 1 else 3000"
started=$SECONDS
(run cluster --workflow-profile profiles/slurm --slurm-init-seconds-before-status-checks 4 \
    --set-resources "exhibits:mem_mb=$too_little" "site:mem_mb=$too_little" run:gpu=1 \
    "${config[@]}") >"$place/cluster.log" 2>&1 &
snakemake=$!
echo $snakemake >"$place/snakemake.pid"

running() { # the first running Slurm job whose comment has a word
    kill -0 $snakemake 2>/dev/null || failed "the run on the cluster ended before $2"
    timeout 10 squeue --noheader --states=RUNNING --format='%i %k' 2>/dev/null |
        awk -v word="$1" 'index($0, word) {print $1; exit}'
}
await() {
    found=
    for _ in $(seq 600); do
        sleep 1
        found=$(running "$1" "$2")
        [ -z "$found" ] || return 0
    done
    failed "ten minutes passed before $2"
}

await "" "any job ran"
kill -9 "$(cat "$place/slurmd.pid")"
sleep 10
start_slurmd
echo "Killed slurmd while job $found ran, and started it again"

await rule_run "a batch of jobs ran"
sleep 5
timeout 60 scancel "$found"
echo "Killed job $found, a batch"

wait $snakemake || failed "the run on the cluster"
rm "$place/snakemake.pid"
echo "Run on the cluster: $((SECONDS - started)) s"

grep -qi "job $found .* cancelled" "$place/slurmd.log" || failed "job $found was not killed"
grep -qi "exceeded memory limit" "$place/slurmd.log" ||
    failed "no job was killed for too much memory"
[ "$(cat "$place"/cluster/.snakemake/log/*.log | grep -c "Trying to restart job")" -ge 2 ] ||
    failed "the two killed jobs were not submitted again"
ls "$place"/cluster/results/slurm_logs/*/*.log >/dev/null ||
    failed "the logs of Slurm are not collected"

"$python" - "$place"/local "$place"/cluster <<'PYTHON'
import sys
from pathlib import Path

import pandas as pd


def rows(place):
    """All rows of a run but for how long they took, in one order."""
    (path,) = Path(place).glob("results/*/rows.parquet")
    table = pd.read_parquet(path).drop(columns="seconds")
    return table, sorted(table.to_json(orient="records", lines=True, double_precision=15).split("\n"))


(local, left), (cluster, right) = map(rows, sys.argv[1:])
if left != right or not len(local):
    sys.exit(f"rows differ: {len(local)} local, {len(cluster)} on the cluster")
print(f"rows equal: {len(local)}")
PYTHON
