#!/usr/bin/env bash
# README's two commands on a bare Debian that has Python and git and nothing else: no compiler, no home of yours.
#
#   tests/fresh_machine.sh [--suite trixie|bookworm] [--user NAME] [--with PACKAGE]… [COMMAND]
#
# COMMAND runs in a fresh clone of HEAD; without one README's two do, each in a clone of its own, timed. --user: root, or
# a name that the system then has; default: somebody. --with: a package of Debian's that the system has as well
# (mesa-vulkan-drivers: lavapipe). Needs root, debootstrap, and the right to mount. The bare system, 400 MB, is kept in
# FRESH_MACHINES (default /var/tmp); the clone, 2 GB with its environment, is not. One run at a time.
set -euo pipefail
# What is mounted is gone with this process, however it ends.
[ -n "${FRESH_MACHINE:-}" ] || FRESH_MACHINE=1 exec unshare --mount "$0" "$@"

suite=trixie user=somebody packages=
while [ $# -gt 0 ]; do
  case $1 in
    --suite) suite=$2; shift 2 ;;
    --user) user=$2; shift 2 ;;
    --with) packages+=,$2; shift 2 ;;
    *) break ;;
  esac
done
project=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
system=${FRESH_MACHINES:-/var/tmp}/tvmbuild-fresh-$suite${packages//,/-}
home=/home/$user
[ "$user" = root ] && home=/root

exec 9>"$system.lock"
flock 9
trap 'rm -rf "${system:?}$home"' EXIT
if [ ! -e "$system/.complete" ]; then
  # This machine's own mirror and its signature, whatever they are.
  mirror=
  if grep -q '^ID=debian' /etc/os-release; then
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | head -n 1) || true
  fi
  rm -rf "$system"
  # shellcheck disable=SC2086 # no mirror: debootstrap's own
  debootstrap --variant=minbase --include="python3,python3-venv,git,ca-certificates$packages" "$suite" "$system" $mirror >/dev/null
  touch "$system/.complete"
fi
cp /etc/resolv.conf /etc/hosts "$system/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/"
# Of this machine's pip the index and the certificate, and of these what is set.
{
  echo '[global]'
  for key in index-url cert; do
    value=$(python3 -m pip config get "global.$key" 2>/dev/null) && echo "$key = $value"
  done
} >"$system/etc/pip.conf" || true
[ "$user" = root ] || chroot "$system" id "$user" >/dev/null 2>&1 || chroot "$system" useradd -m "$user"

mount --bind /proc "$system/proc"
mount --bind /dev "$system/dev"
mount -t tmpfs tmpfs "$system/dev/shm"
rm -rf "$system/tmp" && mkdir -m 1777 "$system/tmp"

run() {
  rm -rf "${system:?}$home" && mkdir -p "$system$home"
  git clone -q --no-hardlinks "$project" "$system$home/project"
  chroot "$system" chown -R "$user:" "$home"
  chroot --userspec="$user" "$system" env -i HOME="$home" USER="$user" PATH=/usr/bin:/bin LANG=C.UTF-8 TERM=dumb \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt bash -c "cd ~/project && $1"
}
if [ $# -gt 0 ]; then
  run "$*"
  exit
fi
echo "== $suite, $user: set up and build"
time run "python3 -m venv .venv && .venv/bin/pip install -q -e . && .venv/bin/doit"
echo "== $suite, $user: set up and test"
time run "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]' && .venv/bin/pytest"
