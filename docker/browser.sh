#!/bin/sh
# What the tests of `ident report` open its page with: Chromium, of Debian and Ubuntu. Needs root, or sudo.
set -eu
as_root=""
[ "$(id -u)" -eq 0 ] || as_root="sudo"
$as_root apt-get update -q
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends chromium
