# grantd: `make` alone lists what can be made.

PREFIX      ?= /usr/local
DESTDIR     ?=
SYSCONFDIR  ?= /etc
BINDIR      ?= $(PREFIX)/bin
# Where grantctl looks for the program behind it: beside the folder that it is in (docs/developers/decisions/0050-front-of-grantctl.md).
PROGRAMDIR  := $(abspath $(BINDIR)/../lib/grantd)
DATADIR     ?= $(PREFIX)/share
DOCDIR      ?= $(DATADIR)/doc/grantd
UNITDIR     ?= $(PREFIX)/lib/systemd/system
USERUNITDIR ?= $(PREFIX)/lib/systemd/user
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
TMPFILESDIR ?= $(PREFIX)/lib/tmpfiles.d
MANDIR      ?= $(DATADIR)/man
BASHCOMPDIR ?= $(DATADIR)/bash-completion/completions
ZSHCOMPDIR  ?= $(DATADIR)/zsh/site-functions
FISHCOMPDIR ?= $(DATADIR)/fish/vendor_completions.d
INCLUDEDIR  ?= $(PREFIX)/include
LIBDIR      ?= $(PREFIX)/lib
# Debian's Python imports from these folders: /usr/lib/python3, and the folder of the version below /usr/local.
PYTHONDIR   ?= $(PREFIX)/lib/$(if $(filter /usr,$(PREFIX)),python3,$(shell PATH=/usr/bin:$$PATH python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])' 2>/dev/null || echo python3))/dist-packages
SWIFTDIR    ?= $(DATADIR)/grantd/swift
NODEDIR     ?= $(DATADIR)/nodejs
GODIR       ?= $(DATADIR)/gocode/src/grantd.invalid

# Programs find these helpers by name (docs/helpers.md). python3-keyring has a `keyring` in PATH too: ours has a folder of its own.
HELPERS     := git-credential-grantd docker-credential-grantd cargo-credential-grantd terraform-credentials-grantd

# docs/man: scripts/package/manual generates them.
MANUAL      := $(notdir $(wildcard docs/man/*.[1578]))

# Which build `make install` takes: release or debug.
BUILD       ?= release
PRODUCTS    := .build-make/$(BUILD)
BUILD_TARGET := $(if $(filter debug,$(BUILD)),build,release)
BUILD_MINUTES := $(if $(filter debug,$(BUILD)),about four,10 to 20)
# Symbols are half of a release build. STRIP= keeps them.
STRIP       ?= $(if $(filter release,$(BUILD)),$(if $(shell command -v strip),--strip))
# The service runs with the homes out of sight: a Swift toolchain in one must not be needed at run time.
RELEASE_FLAGS ?= --static-swift-stdlib
ARGS        ?=

.DEFAULT_GOAL := help
.PHONY: help deps build release demo run check test test-long bench simulate crash reliability sanitize soak fuzz lint format docs install installed-build install-files install-libraries install-documents uninstall deb clean
# Two builds in one folder wait for each other's lock, and an install needs its build: nothing to run at once.
.NOTPARALLEL:

help: ## this list
	@echo 'make TARGET [VARIABLE=value]'
	@echo
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1|\2/p' Makefile | awk -F'|' '{ \
	  line = sprintf("  %-11s", $$1); count = split($$2, words, " "); \
	  for (i = 1; i <= count; i++) { \
	    if (length(line) + 1 + length(words[i]) > 80) { print line; line = sprintf("  %-11s", "") } \
	    line = line " " words[i] } \
	  print line }'
	@echo
	@echo 'install and uninstall use PREFIX ($(PREFIX)), DESTDIR, UNITDIR, USERUNITDIR'
	@echo 'and SYSCONFDIR ($(SYSCONFDIR)), which only places grantd.toml: the system broker'
	@echo 'reads /etc/grantd.'

deps: ## install what building needs and is missing
	@scripts/deps

build: deps ## debug build
	scripts/swiftpm build

release: deps ## optimised build of grantd and grantctl
	GRANTD_TARGETS='grantd grantctl grantctl-front' scripts/swiftpm build -c release $(RELEASE_FLAGS)

demo: deps ## the main job in under a minute; with PROVIDER=vms, 7pass, dropbox, uber or zephr that system (ARGS=--by-hand)
	@$(if $(PROVIDER),scripts/demo/system $(PROVIDER) --check)
	@scripts/build-quietly grantd grantctl grantd-demo-provider
	@$(if $(PROVIDER),scripts/demo/system $(PROVIDER) $(ARGS),scripts/demo/main-job)

run: deps ## a broker for you alone, in the foreground (ARGS='--log-level debug')
	@scripts/build-quietly grantd grantctl
	@scripts/run $(ARGS)

check: deps ## build what changed and test the rooms with changes (ROOM='Broker UnixSocket' or core picks)
	@scripts/check $(ROOM)

test: ## the checks of CI, in 25 minutes on two processors (TESTS_ONLY='lint unit' picks stages)
	@scripts/test

test-long: ## the long searches with fresh seeds (PART=due: what changed since; PART='simulate fuzz' picks)
	@scripts/test --long $(PART)

bench: ## the numbers in docs, measured here
	@scripts/deps --bench
	@scripts/bench $(ARGS)

simulate: deps ## the broker in seeded worlds where everything fails (SEEDS=10000, FIRST=1; SEED=7 shows one, ARGS=…)
	@scripts/build-quietly grantd-simulate
	@scripts/search/simulate $(if $(SEED),--seed $(SEED),--first $(or $(FIRST),1) --seeds $(or $(SEEDS),10000)) $(ARGS)

soak: deps ## everything at once against one broker: no error, no growth (MINUTES=10, ARGS='--short')
	@scripts/search/soak --minutes $(or $(MINUTES),10) $(ARGS)

crash: deps ## kill the broker at any moment: no grant, no key is lost (ROUNDS=500, ROTATIONS=1000, ARGS='--seed 7')
	@scripts/build-quietly grantd grantd-demo-provider
	@Tests/crash/run --rounds $(or $(ROUNDS),500) $(ARGS)
	@Tests/crash/rotate --runs $(or $(ROTATIONS),1000) $(ARGS)

reliability: deps ## all faults at random, and each by itself: no grant lost that could be kept (SECONDS=600, ARGS='--seed 7')
	@scripts/build-quietly grantd grantctl
	@Tests/reliability/directed.py
	@Tests/reliability/reliability.py --seconds $(or $(SECONDS),600) $(ARGS)

sanitize: deps ## the tests under ThreadSanitizer and AddressSanitizer (ARGS=thread picks one)
	@scripts/search/sanitize $(ARGS)

fuzz: deps ## what reads strangers' texts, with libFuzzer, a minute each (SECONDS=600, TARGET='json rpc')
	@scripts/search/fuzz --seconds $(or $(SECONDS),60) $(TARGET)

lint: ## formatting, linters of shell and Python, import rules
	@TESTS_ONLY='lint imports' scripts/test

format: ## rewrite the sources in the project's format
	swift format -i -r Sources Tests Package.swift clients/swift/Package.swift clients/swift/Sources/Grantd examples

docs: deps ## regenerate the reference in docs: rpc, errors, configuration, the list of decisions, manual pages, completions
	scripts/swiftpm run grantd-reference --write docs
	scripts/lint/decisions --write
	@scripts/build-quietly grantd grantctl
	scripts/package/manual --write .build-make/debug docs

# The directories in the units are those of the default PREFIX.
UNIT_PATHS = sed -e 's|/usr/local/bin/|$(BINDIR)/|g' -e 's|/usr/local/share/doc/grantd|$(DOCDIR)|g'
D = $(DESTDIR)
# They reload services whose token files change.
FILE_UNITS := grantd-file@.path grantd-file@.service
# Links of the documents that lead to no installed file: screenshots are left out, and the manual pages are in MANDIR.
INSTALLED_LINKS = sed -i -e '/^!\[.*\](images\//,+1d' -e 's|\[manual pages\](docs/man)|manual pages|' -e 's|\[man\](man)|`$(MANDIR)`|'

install: ## put a release build, units, libraries, completions and documents in place
	@umask 022 && $(MAKE) --no-print-directory install-files

# The libraries of clients/ (docs/libraries.md).
VERSION     := $(shell sed -nE 's/.*current = "([^"]+)".*/\1/p' Sources/Clients/BrokerAPI/Version.swift)
DIST_INFO   := $(PYTHONDIR)/grantd-$(VERSION).dist-info
CFLAGS      ?= -O2 -g
install-libraries:
	install -d '$D$(PYTHONDIR)/grantd/adapters' '$D$(DIST_INFO)' '$D$(INCLUDEDIR)' '$D$(LIBDIR)/pkgconfig' \
	  '$D$(DATADIR)/grantd/c' '$D$(NODEDIR)/grantd' '$D$(GODIR)/grantd'
	install -m 644 clients/python/src/grantd/*.py clients/python/src/grantd/py.typed '$D$(PYTHONDIR)/grantd/'
	install -m 644 clients/python/src/grantd/adapters/*.py '$D$(PYTHONDIR)/grantd/adapters/'
	printf '%s\n' 'Metadata-Version: 2.1' 'Name: grantd' 'Version: $(VERSION)' 'License: Apache-2.0' \
	  'Summary: Tokens from grantd, the local OAuth broker' 'Requires-Python: >=3.9' >'$D$(DIST_INFO)/METADATA'
	printf '[keyring.backends]\ngrantd = grantd.adapters.keyring\n' >'$D$(DIST_INFO)/entry_points.txt'
	install -m 644 clients/c/grantd.h '$D$(INCLUDEDIR)/'
	install -m 644 clients/c/grantd.c '$D$(DATADIR)/grantd/c/'
	$(CC) -std=c11 $(CFLAGS) -fPIC -Iclients/c -c -o '$D$(LIBDIR)/grantd.o' clients/c/grantd.c
	rm -f '$D$(LIBDIR)/libgrantd.a' && ar rcsD '$D$(LIBDIR)/libgrantd.a' '$D$(LIBDIR)/grantd.o' && rm '$D$(LIBDIR)/grantd.o'
	printf '%s\n' 'Name: grantd' 'Description: Tokens from grantd, the local OAuth broker' 'Version: $(VERSION)' \
	  'Cflags: -I$(INCLUDEDIR) -pthread' 'Libs: -L$(LIBDIR) -lgrantd -pthread' >'$D$(LIBDIR)/pkgconfig/grantd.pc'
	install -m 644 clients/js/*.js clients/js/*.d.ts clients/js/package.json '$D$(NODEDIR)/grantd/'
	install -m 644 $(filter-out %_test.go,$(wildcard clients/go/*.go)) clients/go/go.mod '$D$(GODIR)/grantd/'
	rm -rf '$D$(SWIFTDIR)' && install -d '$D$(SWIFTDIR)'
	cp -RL clients/swift/Package.swift clients/swift/Sources '$D$(SWIFTDIR)/' && chmod -R u=rwX,go=rX '$D$(SWIFTDIR)'
	chmod 644 '$D$(DIST_INFO)'/* '$D$(LIBDIR)/libgrantd.a' '$D$(LIBDIR)/pkgconfig/grantd.pc'

# Tests/docs/run installs them from a debug build: PRODUCTS=.build-make/debug.
install-documents:
	install -d '$D$(DOCDIR)/examples' '$D$(DOCDIR)/config' '$D$(DOCDIR)/docs/developers/decisions' \
	  '$D$(DOCDIR)/docs/providers' '$D$(DOCDIR)/docs/recipes'
	install -m 644 systemd/examples/* '$D$(DOCDIR)/examples/'
	cd examples && find . -type f ! -name go.mod ! -name Package.swift -exec install -D -m 644 '{}' '$(abspath $D$(DOCDIR))/examples/{}' ';'
	install -m 644 config/grantd.toml config/grantd-handler.desktop '$D$(DOCDIR)/config/'
	install -m 644 README.md SECURITY.md CHANGELOG.md CONTRIBUTING.md LICENSE '$D$(DOCDIR)/'
	install -m 644 docs/*.md docs/*.svg '$D$(DOCDIR)/docs/'
	$(INSTALLED_LINKS) '$D$(DOCDIR)/'*.md '$D$(DOCDIR)/docs/'*.md
	$(PRODUCTS)/grantctl openrpc >'$D$(DOCDIR)/docs/openrpc.json'
	install -m 644 docs/developers/*.md docs/developers/*.svg '$D$(DOCDIR)/docs/developers/'
	install -m 644 docs/developers/decisions/*.md '$D$(DOCDIR)/docs/developers/decisions/'
	install -m 644 docs/providers/*.md '$D$(DOCDIR)/docs/providers/'
	install -m 644 docs/recipes/*.md '$D$(DOCDIR)/docs/recipes/'

# Before any file is installed.
installed-build:
	@test -x $(PRODUCTS)/grantd && test -x $(PRODUCTS)/grantctl && test -x $(PRODUCTS)/grantctl-front || { \
	  echo 'There is no $(BUILD) build. It is made first: $(BUILD_MINUTES) minutes on two processors.'; \
	  echo '`make $(BUILD_TARGET)` builds it without root.'; \
	  $(MAKE) $(BUILD_TARGET); }

# Under the umask of `install`: whoever installs may have one that nobody else could read the files with.
install-files: installed-build install-libraries
	install -d '$D$(BINDIR)' '$D$(PROGRAMDIR)' '$D$(UNITDIR)' '$D$(USERUNITDIR)' '$D$(SYSUSERSDIR)' '$D$(TMPFILESDIR)' '$D$(SYSCONFDIR)/grantd' \
	  '$D$(DATADIR)/grantd/providers.d' '$D$(BASHCOMPDIR)' '$D$(ZSHCOMPDIR)' '$D$(FISHCOMPDIR)' \
	  $(foreach section,1 5 7 8,'$D$(MANDIR)/man$(section)')
	install -m 755 $(STRIP) $(PRODUCTS)/grantd '$D$(BINDIR)/'
	install -m 755 $(STRIP) $(PRODUCTS)/grantctl '$D$(PROGRAMDIR)/'
	install -m 755 $(STRIP) $(PRODUCTS)/grantctl-front '$D$(BINDIR)/grantctl'
	for name in $(HELPERS); do ln -sf grantctl '$D$(BINDIR)/'$$name || exit 1; done
	install -d '$D$(PROGRAMDIR)/keyring' && ln -sf '../../../$(notdir $(abspath $(BINDIR)))/grantctl' '$D$(PROGRAMDIR)/keyring/keyring'
	for unit in grantd.service grantd.socket grantd-credentials.socket; do \
	  $(UNIT_PATHS) systemd/$$unit >'$D$(UNITDIR)/'$$unit && \
	  $(UNIT_PATHS) systemd/user/$$unit >'$D$(USERUNITDIR)/'$$unit && \
	  chmod 644 '$D$(UNITDIR)/'$$unit '$D$(USERUNITDIR)/'$$unit || exit 1; done
	for unit in $(FILE_UNITS); do \
	  $(UNIT_PATHS) systemd/$$unit >'$D$(UNITDIR)/'$$unit && chmod 644 '$D$(UNITDIR)/'$$unit || exit 1; done
	install -m 644 systemd/sysusers.d/grantd.conf '$D$(SYSUSERSDIR)/grantd.conf'
	install -m 644 systemd/tmpfiles.d/grantd.conf '$D$(TMPFILESDIR)/grantd.conf'
	test -e '$D$(SYSCONFDIR)/grantd/grantd.toml' || install -m 644 config/grantd.toml '$D$(SYSCONFDIR)/grantd/grantd.toml'
	install -m 644 config/grantd.toml '$D$(DATADIR)/grantd/grantd.toml'
	install -m 644 config/providers.d/*.toml '$D$(DATADIR)/grantd/providers.d/'
	$(MAKE) --no-print-directory install-documents
	install -m 644 docs/completion/grantctl.bash '$D$(BASHCOMPDIR)/grantctl'
	install -m 644 docs/completion/_grantctl '$D$(ZSHCOMPDIR)/'
	install -m 644 docs/completion/grantctl.fish '$D$(FISHCOMPDIR)/'
	for page in $(MANUAL); do install -m 644 docs/man/$$page '$D$(MANDIR)/man'$${page##*.}/ || exit 1; done
	for name in $(HELPERS); do echo '.so man1/grantctl-helper.1' >'$D$(MANDIR)/man1/'$$name.1 || exit 1; done
	@echo
ifneq ($(filter /usr /usr/local,$(abspath $(PREFIX))),)
	@echo 'Installed. For this machine: systemd-sysusers && systemctl daemon-reload && systemctl enable --now grantd.socket grantd'
	@echo 'For one user:  systemctl --user daemon-reload && systemctl --user enable --now grantd.socket grantd'
else
	@echo 'Installed. systemd searches for units below /usr and /usr/local, not below this PREFIX ($(PREFIX)).'
endif

# What runs here from these units, and from no others of the same name.
SYSTEM_UNITS := grantd.socket grantd-credentials.socket grantd.service
uninstall: ## stop the system's broker and take all of that away again, except configuration and state
	@if [ -z '$D' ] && [ "$$(id -u)" = 0 ] && [ -d /run/systemd/system ]; then \
	  for unit in $(SYSTEM_UNITS); do \
	    [ "$$(systemctl show -P FragmentPath $$unit)" != '$(UNITDIR)/'$$unit ] || systemctl disable --now $$unit || exit 1; done; \
	elif [ -z '$D' ]; then echo 'First, if this machine runs it: sudo systemctl disable --now $(SYSTEM_UNITS)'; fi
	rm -f $(foreach name,$(HELPERS),'$D$(BINDIR)/$(name)' '$D$(MANDIR)/man1/$(name).1')
	rm -f $(foreach unit,$(FILE_UNITS),'$D$(UNITDIR)/$(unit)')
	rm -f '$D$(BINDIR)/grantd' '$D$(BINDIR)/grantctl' '$D$(UNITDIR)/grantd.service' '$D$(UNITDIR)/grantd.socket' \
	  '$D$(USERUNITDIR)/grantd.service' '$D$(USERUNITDIR)/grantd.socket' '$D$(SYSUSERSDIR)/grantd.conf' \
	  '$D$(UNITDIR)/grantd-credentials.socket' '$D$(USERUNITDIR)/grantd-credentials.socket' \
	  '$D$(TMPFILESDIR)/grantd.conf' $(foreach page,$(MANUAL),'$D$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(page)') \
	  '$D$(BASHCOMPDIR)/grantctl' '$D$(ZSHCOMPDIR)/_grantctl' '$D$(FISHCOMPDIR)/grantctl.fish'
	rm -rf '$D$(DATADIR)/grantd' '$D$(PROGRAMDIR)' '$D$(DOCDIR)'
	rm -rf '$D$(PYTHONDIR)/grantd' '$D$(DIST_INFO)' '$D$(NODEDIR)/grantd' '$D$(GODIR)' '$D$(SWIFTDIR)'
	rm -f '$D$(INCLUDEDIR)/grantd.h' '$D$(LIBDIR)/libgrantd.a' '$D$(LIBDIR)/pkgconfig/grantd.pc'
	@[ -n '$D' ] || [ "$$(id -u)" != 0 ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload
	@echo 'Kept: $(SYSCONFDIR)/grantd (configuration) and /var/lib/grantd (accounts).'
	@[ -n '$D' ] || echo 'Brokers of single users run on; each stops theirs: systemctl --user stop $(SYSTEM_UNITS)'

deb: ## a Debian package of the release build, and one with its symbols, in .build (BUILD=debug takes that one)
	@scripts/package/deb --tools
	@$(MAKE) --no-print-directory $(BUILD_TARGET)
	@BUILD=$(BUILD) scripts/package/deb $(if $(filter debug,$(BUILD)),,--symbols) $(ARGS)

clean: ## remove the build
	@scripts/swiftpm --clean
	rm -rf .build .build-*
