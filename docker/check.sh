#!/bin/bash
# Tries on Debian what is promised for a fresh machine, with what is committed here:
#   docker/check.sh readme    the two commands of README.md, word for word, in a bare Debian of debootstrap's
#   docker/check.sh cpu       that target of docker/Dockerfile, and ident's commands in the image; or `cuda`
#   docker/check.sh engine    both targets, and the cluster of docker/compose.yaml, of which a worker is killed
# A second argument says where its files go, which end with it; it takes 20 GB there, and the README's words 30.
# Needs root. Installs debootstrap, and Debian's Docker where there is none; its engine runs for this script alone, and
# its containers in a network that reaches nothing. What this machine knows of its own network goes along where packages
# are fetched: proxies, certificates, and the indexes that variables of pip and uv name. No image keeps any of it, which
# is checked. BACKEND= takes PyTorch from PyPI.
set -euo pipefail
what=${1:-}
root=${2-/var/tmp/ident-check}
here=$(cd "$(dirname "$0")/.." && pwd)

clean() { # What this run left; and its folder, if that was made for it
    find "$root" -xdev -mindepth 1 -delete
    [ -z "$made" ] || rmdir "$root"
}

stop() {
    echo "docker/check.sh: $1" >&2
    exit 2
}

install() { # PACKAGE
    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$1"
}

if [ -z "${INSIDE:-}" ]; then
    case "$what" in
        readme) room=30 ;;
        cpu | cuda | engine) room=20 ;;
        *) stop "type docker/check.sh readme|cpu|cuda|engine [FOLDER]" ;;
    esac
    [ "$(id -u)" -eq 0 ] || stop "needs root: type sudo docker/check.sh $what"
    command -v apt-get > /dev/null || stop "needs Debian or Ubuntu: here is no apt-get"
    [[ "$root" =~ ^[^[:space:]]+$ ]] || stop "'$root': is no name for a folder here; give one without spaces"
    if [ -n "$(ls -A "$root" 2> /dev/null)" ] && [ ! -e "$root/.ident-check" ]; then
        stop "$root: is none of this script's; give another folder"
    fi
    made=$([ -d "$root" ] || echo yes)
    mkdir -p "$root" 2> /dev/null && touch "$root/.ident-check" 2> /dev/null \
        || stop "$root: cannot be made; give another folder"
    exec 9< "$root/.ident-check"
    flock --nonblock 9 || stop "$root: another run is at work there; wait for it, or give another folder"
    trap clean EXIT
    free=$(($(df --output=avail --block-size=1 "$root" | tail -1) / 10 ** 9))
    [ "$free" -ge "$room" ] || stop "$root: $free GB are free there, and it takes $room; give another folder"
    find "$root" -xdev -mindepth 1 ! -name .ident-check -delete # of a run that was cut off
    commands=(debootstrap:debootstrap)
    [ "$what" = readme ] || commands+=(dockerd:docker.io docker-compose:docker-compose)
    for command in "${commands[@]}"; do
        command -v "${command%:*}" > /dev/null && continue
        install "${command#*:}" > "$root/apt.log" 2>&1 \
            || stop "${command#*:} cannot be installed: $(grep '^E:' "$root/apt.log" | tail -1)"
    done
    # Processes and mounts of its own, which end with this, however it ends
    INSIDE=1 unshare --mount --pid --fork --kill-child --mount-proc "$0" "$what" "$root" &
    inside=$!
    trap 'kill -KILL $inside 2> /dev/null || true; wait 2> /dev/null; clean' EXIT
    trap 'exit 130' INT TERM
    wait $inside
    exit
fi

timed() { # WHAT COMMAND
    local began=$SECONDS what=$1
    shift
    "$@"
    echo "== $((SECONDS - began)) s: $what"
}

make_debian() { # PACKAGES
    debootstrap --variant=minbase --include="ca-certificates,$1" bookworm "$root/debian" > "$root/debootstrap.log" \
        || stop "debootstrap made no Debian: $(tail -1 "$root/debootstrap.log")"
}

network() { # What this machine is told of where packages are
    env | grep -E '^(PIP|UV)_[A-Z_]*INDEX[A-Z_]*=|^[a-zA-Z]+_(proxy|PROXY)=' || true
}

bundle=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}

readme() {
    make_debian git,make,python3.11
    local debian=$root/debian variables command
    cp /etc/hosts /etc/resolv.conf "$debian/etc/"
    cp "$bundle" "$debian/etc/ssl/certs/ca-certificates.crt"
    mount -t proc proc "$debian/proc"
    mount --rbind /dev "$debian/dev"
    mount -t tmpfs tmp "$debian/dev/shm"
    git clone --quiet "$here" "$debian/root/ident"
    mapfile -t variables < <(network)
    variables+=(HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
    for command in SSL_CERT_FILE PIP_CERT; do variables+=("$command=/etc/ssl/certs/ca-certificates.crt"); done
    awk '/^make (demo|test) /{print $1, $2}' "$debian/root/ident/README.md" | while read -r command; do
        timed "$command" chroot "$debian" env -i "${variables[@]}" \
            bash -euo pipefail -c "cd /root/ident && $command" < /dev/null
    done
    du -shx "$debian/root/ident/.venv"
}

export DOCKER_HOST=unix://$root/socket DOCKER_BUILDKIT=1 # which Debian's engine has, and does not take by itself
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH # Debian's, whatever else is installed

engine() { # OPTIONS
    dockerd --data-root "$root/data" --exec-root "$root/run" --pidfile "$root/pid" --host "$DOCKER_HOST" "$@" \
        > "$root/engine.log" 2>&1 &
    engine=$!
    for _ in $(seq 60); do
        docker info > /dev/null 2>&1 && return
        kill -0 $engine 2> /dev/null || break
        sleep 1
    done
    stop "the engine does not start: $(grep -v level=info "$root/engine.log" | tail -1)"
}

end_engine() {
    kill $engine
    wait $engine || true
}

build() { # TARGET: in this machine's network, of which the engine changes nothing
    engine --bridge=none --iptables=false --ip-forward=false
    if [ ! -e "$root/clone" ]; then
        make_base
        git clone --quiet "$here" "$root/clone"
        network | sed "s/'/'\\\\''/g; s/=/='/; s/\$/'/" > "$root/network"
        for variable in SSL_CERT_FILE PIP_CERT; do echo "$variable=/run/secrets/certificates"; done >> "$root/network"
    fi
    timed "ident:$1 is built" docker build --progress plain --network host \
        --file "$root/clone/docker/Dockerfile" --target "$1" \
        --secret "id=network,src=$root/network" --secret "id=certificates,src=$bundle" \
        --build-arg "BACKEND=${BACKEND-cpu}" --tag "ident:$1" "$root/clone" 2> "$root/build.log" \
        || stop "ident:$1 cannot be built: $(tail -1 "$root/build.log")"
    docker builder prune --force > /dev/null
    docker images "ident:$1" --format '== {{.Repository}}:{{.Tag}} has {{.Size}}'
    check_traces "ident:$1"
    end_engine
}

make_base() { # Under the name that the Dockerfile asks for
    local base suite
    make_debian bash
    rm -rf "$root"/debian/etc/{resolv.conf,hostname} "$root"/debian/var/{lib/apt/lists,cache/apt,log}/*
    for suite in "debian bookworm" "debian bookworm-updates" "debian-security bookworm-security"; do
        echo "deb http://deb.debian.org/$suite main"
    done > "$root/debian/etc/apt/sources.list"
    base=$(awk '/^FROM debian/{print $2}' "$here/docker/Dockerfile")
    tar -C "$root/debian" -c . | docker import - "$base" > /dev/null
}

check_traces() { # IMAGE: no layer and no line of its history has anything of this machine's network
    local trace=$root/traces
    docker run --rm --network none "$1" sh -c 'cat $(find /opt -name cacert.pem)' > "$root/public"
    cat "$root"/debian/usr/share/ca-certificates/mozilla/* >> "$root/public"
    { grep -vxFf "$root/public" "$bundle" || true; network | sed 's/^[^=]*=//'; } | awk 'length > 8' > "$trace"
    echo "== looking for $(wc -l < "$trace") lines of this machine's network in $1"
    if { docker history --no-trunc "$1"; docker save "$1" | tar -x --to-stdout; } | LC_ALL=C grep -qaFf "$trace"; then
        stop "$1: has something of this machine's network in its layers or its history"
    fi
}

inside() { # IMAGE COMMAND: as user 1000, who may write to the volume, and reaches nobody
    timed "$*" docker run --rm --network none --shm-size 2g --volume "$root/volume:/data" "$@"
}

refused() { # WORDS COMMAND: which ends with 2, and one line that has these words
    local words=$1 code=0 said
    shift
    said=$("$@" 2>&1) || code=$?
    echo "$said"
    [ "$code" = 2 ] && [ "$(wc -l <<< "$said")" = 1 ] && [[ "$said" = *$words* ]] || stop "is not refused: ${*: -1}"
}

cpu() {
    inside ident:cpu ident doctor
    inside ident:cpu ident show --size 64 --quality draft
    inside ident:cpu ident render --n 64 --size 64 --quality draft --out images
    inside ident:cpu ident verify images --rerender 2
    inside ident:cpu ident pairs images --conditional "normal(0.25)" --n 64 --out pairs.h5
    inside ident:cpu ident bench --suite table2 --tier demo --row normal-box-normal --out results
    mkdir "$root/of-root"
    refused "Permission denied" \
        docker run --rm --network none --volume "$root/of-root:/data" ident:cpu ident render --n 16
}

cuda() {
    inside ident:cuda python -c 'import torch; assert torch.version.cuda and not torch.cuda.is_available()'
    inside ident:cuda ident doctor
    inside ident:cuda ident show --size 64 --quality draft --out of-cuda.png
    refused "this machine has 0" docker run --rm --network none ident:cuda ident render --n 16 --gpus 1
    docker image rm ident:cuda > /dev/null
    docker builder prune --all --force > /dev/null # else it would keep its layers
}

compose() { docker-compose --file "$root/clone/docker/compose.yaml" "$@"; }

cluster() { # The cluster of compose.yaml: what it renders while a worker dies is what one machine renders
    export IDENT=cpu CPUS=1 RAY_AUTH_TOKEN
    RAY_AUTH_TOKEN=$(head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n')
    local render=(ident render --n 256 --size 64 --quality draft) worker rendering
    inside ident:cpu "${render[@]}" --out alone
    timed up compose up --detach --no-build --scale worker=2
    for _ in $(seq 60); do
        compose exec -T head ray status 2> /dev/null | grep -q '/2.0 CPU' && break
        sleep 1
    done
    timed "${render[*]}" compose exec -T head "${render[@]}" --ray-address auto --out together &
    rendering=$!
    until compose exec -T head ls together/shards/00000.h5 > /dev/null 2>&1; do
        kill -0 $rendering || stop "the cluster rendered nothing"
        sleep 0.5
    done
    worker=$(compose ps --quiet worker | head -1)
    kill -KILL "$(docker inspect --format '{{.State.Pid}}' "$worker")"
    wait $rendering
    compose exec -T head sh -c 'sha256sum together/shards/*' | sed 's/together/alone/' > "$root/volume/sums"
    (cd "$root/volume" && sha256sum --check --quiet sums) || stop "the cluster rendered other images than one machine"
    [ "$(docker inspect --format '{{.RestartCount}}' "$worker")" = 1 ] || stop "the worker is not started again"
    for _ in $(seq 60); do
        compose exec -T head ray status 2> /dev/null | grep -q '/2.0 CPU' && break
        sleep 1
    done
    timed "${render[*]}" compose exec -T head "${render[@]}" --ray-address auto --out again --workers 2
    compose down --volumes
}

try() { # WHAT: in a network of its own
    ip link set lo up
    engine
    [ -e "$root/volume" ] || { mkdir "$root/volume" && chown 1000 "$root/volume"; }
    "$1"
    end_engine
}

case "$INSIDE $what" in
    "1 readme") readme ;;
    "1 "*)
        tries=("$what")
        [ "$what" != engine ] || tries=(cuda cpu cluster)
        for try in "${tries[@]}"; do
            [ "$try" = cluster ] || build "$try"
            INSIDE=2 unshare --net "$0" "$try" "$root"
        done
        ;;
    *) try "$what" ;;
esac
