# shellcheck shell=bash
# Sourced by the set-up scripts: how they speak, and how they install Debian packages.

say() { echo "${0##*/}: $*"; }
fail() {
    say "$@" >&2
    exit 1
}

# Installs Debian packages when we may, or says exactly what to run.
install_packages() {
    local command="apt-get install --yes --no-install-recommends $*"
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        fail "missing: $*. On Debian or Ubuntu run: sudo $command"
    fi
    say "installing $* (Debian packages)"
    apt-get update --quiet=2 || say "the package lists could not be renewed; going on with those here"
    # Word splitting is meant: the command is a list of words.
    DEBIAN_FRONTEND=noninteractive $command --quiet=2 >/dev/null || fail "this failed: $command"
}
