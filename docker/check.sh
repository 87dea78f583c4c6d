#!/bin/bash
# Tries in a bare Debian of debootstrap's, which has nothing, what is promised for a fresh machine:
#   docker/check.sh readme    the two commands of README.md, word for word, in a clone
#   docker/check.sh cpu       the steps of that target of docker/Dockerfile, or of `cuda`; then a picture, as its user
# A second argument says where the Debian goes (25 GB); one of before is made anew. Needs root, and debootstrap, which it installs.
# What this machine knows of its network goes along: names of hosts, certificates, settings of pip and uv.
set -euo pipefail
what=${1:-}
case "$what" in
    readme | cpu | cuda) ;;
    *) echo "usage: docker/check.sh readme|cpu|cuda [FOLDER]" >&2 && exit 2 ;;
esac
root=${2:-/var/tmp/ident-check}
here=$(cd "$(dirname "$0")/.." && pwd)

if [ -z "${INSIDE:-}" ]; then # mounts and processes of our own, which end with this
    INSIDE=1 exec unshare --mount --pid --fork --kill-child "$0" "$@"
fi

make_debian() {
    command -v debootstrap > /dev/null || apt-get install -q -y --no-install-recommends debootstrap
    if [ -n "$(ls -A "$root" 2> /dev/null)" ] && [ ! -e "$root/.ident-check" ]; then
        echo "$root: is none of this script's; give another folder" >&2 && exit 2
    fi
    rm -rf --one-file-system "$root"
    mkdir -p "$root" && touch "$root/.ident-check"
    debootstrap --variant=minbase --include=ca-certificates,"$1" bookworm "$root" > /dev/null
    cp /etc/hosts /etc/resolv.conf "$root/etc/"
    for known in /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
        [ ! -e "$known" ] || cp "$known" "$root$known"
    done
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmp "$root/dev/shm"
}

inside() { # USER COMMAND: of this machine's variables only those of its network
    local network
    mapfile -t network < <(env | grep -E '^(PIP|UV|SSL|CURL|REQUESTS)_[A-Z_]+=|^[a-zA-Z]+_(proxy|PROXY)=|^BACKEND=' || true)
    chroot --userspec="$1" "$root" /usr/bin/env -i HOME="$(home_of "$1")" PATH="$path:/usr/sbin:/usr/bin:/sbin:/bin" \
        "${network[@]}" bash -euo pipefail -c "cd '$workdir' && $2"
}

home_of() { if [ "$1" = root ]; then echo /root; else echo "/home/$1"; fi; }

timed() {
    local began=$SECONDS
    "$@"
    echo "== $((SECONDS - began)) s: ${*: -1}"
}

readme() {
    make_debian git,make,python3.11
    path=/usr/local/bin workdir=/root
    git clone --quiet "$here" "$root/root/ident"
    workdir=/root/ident
    awk '/^make (demo|test) /{print $1, $2}' "$root/root/ident/README.md" | while read -r command; do
        timed inside root "$command" < /dev/null
    done
    du -shx "$root/root/ident/.venv"
}

image() { # The lines of the stages that a target is made of, in order
    make_debian bash
    path=/usr/local/bin workdir=/
    local stage="" word rest
    while read -r word rest; do
        case "$word" in
            FROM) stage=${rest##* } workdir=/ ;;
        esac
        case "$stage" in base | "build-$what" | "$what") ;; *) continue ;; esac
        case "$word" in
            WORKDIR) workdir=$rest && mkdir -p "$root$workdir" ;;
            COPY)
                case "$rest" in
                    --from=*) ;; # which is here already
                    ". .") # what .dockerignore leaves
                        sed -n 's/^!//p' "$here/.dockerignore" | xargs git -C "$here" archive HEAD |
                            tar -x -C "$root$workdir"
                        ;;
                    *) cp "$here/${rest% *}" "$root${rest##* }" ;;
                esac ;;
            RUN) timed inside root "$rest" ;;
        esac
    done < "$here/docker/Dockerfile"
    rm -rf "$root/build"
    path=/opt/ident/bin:/usr/local/bin workdir=/data
    timed inside ident "ident doctor && ident show --size 64 --quality draft && ls -l traversal.png"
    du -shx "$root/opt/ident" "$root"
}

case "$what" in
    readme) readme ;;
    *) image ;;
esac
