#!/bin/sh
# A browser for the tests of the pages: the one that is there; else, as root on Debian or Ubuntu, their
# package, with a library that Playwright's driver needs; else Playwright's own download. Exit status 1 where none starts.
starts() {
	.venv/bin/python tests/book/chromium.py >/dev/null 2>&1
}

starts && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "Installing what the tests of the pages lack: the packages chromium and libatomic1"
	{ apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium libatomic1; } \
		>/dev/null 2>&1 && starts && exit 0
fi
.venv/bin/playwright install chromium >/dev/null 2>&1 && starts
