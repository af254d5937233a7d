# weir: one Makefile.  `make help` lists the targets people use.
#
# Variants live apart in build/<variant>/ and never mix; the release binary is build/weir.
#   release   hardened, what is installed          asan, tsan   gcc with sanitizers, for tests
#   debug     for gdb                              fuzz         clang, libFuzzer targets
#   cov       gcc with coverage counters           lint-gcc, lint-clang   -Werror, everything
#
# What is built follows from names: src/<room>/*.c is weir, src/main.c the program, lib/*.c libweir,
# tests/*/{test,prop,sim,fault}_*.c are cmocka programs, tests/fuzz/fuzz_*.c fuzz targets.  Any other
# .c below tests/ is shared by the programs of its folder; those of tests/support/ by all tests.
# bench/run and tests/crash/run build their own programs, which use nothing of src/; only
# bench/gate_bench.c measures a part of it.

ifeq ($(MAKELEVEL),0)
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif
endif
MAKEFLAGS += --no-print-directory

VARIANT ?= release
OUT     := build/$(VARIANT)
PKGS    := libuv libconfuse openssl sqlite3 libcurl libmariadb libpq liblz4 libseccomp
LLHTTP  := /usr/share/llhttp
ARCH    := $(shell uname -m)

PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
MANDIR     ?= $(PREFIX)/share/man
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
UNITDIR    ?= $(PREFIX)/lib/systemd/system
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
APPARMORDIR ?= $(SYSCONFDIR)/apparmor.d
ZSHDIR     ?= $(PREFIX)/share/zsh/site-functions
VERSION    := $(shell sed -n 's/^\#define WEIR_VERSION "\(.*\)"/\1/p' src/serve/serve.h)

FUZZ_SECONDS ?= 60

ifneq ($(filter fuzz lint-clang,$(VARIANT)),)
CC := clang
endif

# --- flags ------------------------------------------------------------------------------------

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
        -Wcast-qual -Wwrite-strings -Wformat=2 -Wundef -Wvla -Wimplicit-fallthrough \
        -Wswitch-enum -Werror=implicit-function-declaration

CET_x86_64  := -fcf-protection=full
CET_aarch64 := -mbranch-protection=standard
# Debian's start files carry no such mark, so the linker must be told; they keep the shadow stack.
SHSTK_x86_64 := ,-z,shstk
# Zeroed automatic variables: gcc 12 has it, clang 14 hides it behind a second flag.
AUTO_ZERO := $(if $(findstring clang,$(CC)),,-ftrivial-auto-var-init=zero)
HARDEN := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong \
          -fstack-clash-protection $(CET_$(ARCH)) $(AUTO_ZERO) \
          -fno-delete-null-pointer-checks -fno-strict-overflow

# Fortified calls and zeroed variables hide what the sanitizers look for: release only.  The variants
# of the tests know lines but no variables (-g1), which makes them cheaper to build; debug is for gdb.
UBSAN := undefined -fno-sanitize-recover=all
CFLAGS_release    := -O2 -g $(HARDEN)
CFLAGS_debug      := -O1 -g3 -DWEIR_DEBUG
CFLAGS_asan       := -O1 -g1 -Werror -fno-omit-frame-pointer -fsanitize=address,$(UBSAN)
# Code of unit tests runs once, and the optimizer takes three times as long as it to be compiled.
TEST_CFLAGS_asan  := -O0
CFLAGS_tsan       := -O1 -g1 -fno-omit-frame-pointer -fsanitize=thread
CFLAGS_cov        := -O0 -g --coverage -fprofile-update=atomic
CFLAGS_fuzz       := -O1 -g1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,$(UBSAN)
CFLAGS_lint-gcc   := -O2 -Werror $(HARDEN)
CFLAGS_lint-clang := -O0 -Werror
# lld takes a third of the time of GNU ld, and there is a program for each file of unit tests.
LINK_asan := -fsanitize=address,undefined -fuse-ld=lld
LINK_tsan := -fsanitize=thread -fuse-ld=lld
LINK_cov  := --coverage
LINK_fuzz := -fsanitize=address,undefined -fuse-ld=lld

CPPFLAGS += -Isrc -I/usr/share/include/llhttp -D_GNU_SOURCE -DLLHTTP_STRICT_MODE=1 -MMD -MP
CFLAGS   += -std=gnu17 -fPIE -pthread $(WARN) $(if $(WERROR),-Werror) $(CFLAGS_$(VARIANT)) \
            $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LDFLAGS  += -pie -pthread $(LINK_$(VARIANT)) \
            -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code$(SHSTK_$(ARCH))
LDLIBS   += $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm

# --- what there is ----------------------------------------------------------------------------

objects = $(patsubst %.c,$(OUT)/%.o,$(1))

# A fuzz target is a parser or a format: it may use the rooms up to things, the table of kinds, the
# blocks of history, and TLS with the certificates that it needs.
ROOMS   := $(if $(filter fuzz,$(VARIANT)),base gate log state wire api core things,*)
SRC     := $(sort $(foreach r,$(ROOMS),$(wildcard src/$(r)/*.c)) src/features/kinds.c \
                  $(wildcard src/history/block.c src/history/block_ma*.c src/history/events_json.c) \
                  $(wildcard src/door/tls.c src/door/tls_files.c src/serve/cert_make.c))
UI      := $(sort $(foreach x,html css js svg,$(wildcard src/ui/*.$(x))))
OBJ     := $(call objects,$(SRC)) $(patsubst %,$(OUT)/llhttp/%.o,llhttp api http) $(OUT)/ui_assets.o
TEST_C  := $(sort $(foreach p,test prop sim fault,$(wildcard tests/*/$(p)_*.c)))
FUZZ_C  := $(sort $(wildcard tests/fuzz/fuzz_*.c))
ALONE_C := $(sort $(wildcard tests/crash/*.c bench/*.c))
# libFuzzer brings a main of its own; other variants replay files with the one of replay.c.
SHARED_C := $(filter-out $(TEST_C) $(FUZZ_C) $(ALONE_C) $(if $(filter fuzz,$(VARIANT)),tests/fuzz/replay.c),\
                         $(sort $(wildcard tests/*/*.c)))
TESTS   := $(TEST_C:%.c=$(OUT)/%)
FUZZ    := $(FUZZ_C:%.c=$(OUT)/%)
LIB_C   := $(sort $(wildcard lib/*.c))
ALL_C   := $(wildcard src/main.c) $(SRC) $(LIB_C) $(wildcard examples/*.c) $(TEST_C) $(FUZZ_C) $(SHARED_C) $(ALONE_C)
FORMATTED := $(sort $(wildcard src/*.[ch] src/*/*.[ch] tests/*/*.[ch] bench/*.[ch] \
                              lib/*.[ch] examples/*.[ch]))

.PHONY: all binary client tests fuzzers objects FORCE
all: build/weir build/libweir.so.0 build/libweir.a ## build weir and its client library; the default

build/weir: build/release/weir
	@cmp -s $< $@ || { cp -f $< $@.tmp && mv -f $@.tmp $@; }
build/libweir.%: build/release/client/libweir.%
	@cmp -s $< $@ || { cp -f $< $@.tmp && mv -f $@.tmp $@; }
ifneq ($(VARIANT),release)
build/release/weir: FORCE
	@$(MAKE) VARIANT=release binary
build/release/client/libweir.so.0 build/release/client/libweir.a &: FORCE
	@$(MAKE) VARIANT=release client
endif
client: $(OUT)/client/libweir.so.0 $(OUT)/client/libweir.a
binary: $(OUT)/weir
tests: $(TESTS)
fuzzers: $(FUZZ)
objects: $(call objects,$(ALL_C))

# --- how it is made ---------------------------------------------------------------------------

# A change of compiler or flags rebuilds the variant; a change of this file alone does not.  WERROR=1
# rebuilds nothing either, so that `make test`, which asks for it, uses what `make` built.
FLAGS := $(CC) $(CPPFLAGS) $(filter-out -Werror,$(CFLAGS)) $(TEST_CFLAGS_$(VARIANT)) $(LDFLAGS) $(LDLIBS)
$(OUT)/.flags: FORCE
	@pkg-config --exists $(PKGS) && test -f $(LLHTTP)/llhttp.c || \
	        { echo "weir needs some packages first; run: tools/deps run" >&2; exit 1; }
	@mkdir -p $(@D); echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@
# The library's list of members, so that a deleted source leaves it too.
$(OUT)/.members: FORCE
	@mkdir -p $(@D); echo '$(OBJ)' | cmp -s - $@ || echo '$(OBJ)' > $@

# libmariadb's header has macros with words that are banned: its users ban them afterwards.
BANNED = src/base/$(if $(filter src/sql/mysql.c src/sql/mysql_auth.c \
                             src/sql/mysql_connect.c,$<),defs,banned).h
$(OUT)/src/%.o: src/%.c $(OUT)/.flags
	@mkdir -p $(@D); echo "  cc  $(VARIANT)  $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -include $(BANNED) -c $< -o $@
$(OUT)/tests/%.o: tests/%.c $(OUT)/.flags
	@mkdir -p $(@D); echo "  cc  $(VARIANT)  $<"
	@$(CC) $(CPPFLAGS) -Itests $(CFLAGS) $(TEST_CFLAGS) -c $< -o $@
$(call objects,$(filter-out tests/prop/% tests/sim/%,$(TEST_C) $(FUZZ_C))): TEST_CFLAGS = $(TEST_CFLAGS_$(VARIANT))
$(OUT)/bench/gate_bench: $(OUT)/bench/gate_bench.o $(OUT)/libweir.a
	$(link) $(LDLIBS) -lm -o $@
$(OUT)/bench/%.o: bench/%.c $(OUT)/.flags
	@mkdir -p $(@D); echo "  cc  $(VARIANT)  $<"
	@$(CC) $(CPPFLAGS) -Ibench $(CFLAGS) -c $< -o $@
# Debian ships llhttp as C sources; its warnings are not ours.
$(OUT)/llhttp/%.o: $(LLHTTP)/%.c $(OUT)/.flags
	@mkdir -p $(@D); $(CC) $(CPPFLAGS) $(filter-out $(WARN) -Werror,$(CFLAGS)) -w -c $< -o $@

# The page, compiled in.  The list is kept as well, so that a deleted file leaves it too.
$(OUT)/.ui: FORCE
	@mkdir -p $(@D); echo '$(UI)' | cmp -s - $@ || echo '$(UI)' > $@
$(OUT)/ui_assets.c: $(UI) $(OUT)/.ui tools/embed
	@echo "  ui  $(VARIANT)"; tools/embed $@ $(UI)
$(OUT)/ui_assets.o: $(OUT)/ui_assets.c $(OUT)/.flags
	@$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

# q, not r: two rooms may have files of the same name.
$(OUT)/libweir.a: $(OBJ) $(OUT)/.members
	@rm -f $@; ar qcs $@ $(OBJ)

link = @echo "  ld  $@"; $(CC) $(LDFLAGS) $(filter %.o,$^) \
        -Wl,--start-group $(filter %.a,$^) -Wl,--end-group
$(OUT)/weir: $(OUT)/src/main.o $(OUT)/libweir.a
	$(link) $(LDLIBS) -o $@

# The client library: lib/ and the parsers it shares with weir, in one object in which only weir_*
# can be seen (a program may well have a buf_init() of its own), without what it does not use.
# $(OUT)/libweir.a is not it, but all of weir itself.
CLIENT_SRC := $(addprefix src/,base/arena.c base/buf.c base/err.c base/shown.c base/slice.c \
                wire/resp.c wire/resp_reply.c wire/server_url.c wire/tls_client.c)
CLIENT_LIBS := $(shell pkg-config --libs openssl 2>/dev/null)
LIB_OBJ    := $(call objects,$(LIB_C))
CLIENT_OBJ := $(LIB_OBJ) $(patsubst %.c,$(OUT)/client/%.o,$(CLIENT_SRC))
CLIENT_CC   = mkdir -p $(@D); echo "  cc  $(VARIANT)  $<  (libweir)"; \
        $(CC) $(CPPFLAGS) -Ilib $(filter-out -fPIE,$(CFLAGS)) -std=gnu11 -fPIC -fvisibility=hidden \
        -ffunction-sections -fdata-sections -include src/base/banned.h -c $< -o $@
$(OUT)/lib/%.o: lib/%.c $(OUT)/.flags
	@$(CLIENT_CC)
$(OUT)/client/%.o: %.c $(OUT)/.flags
	@$(CLIENT_CC)
$(OUT)/examples/%.o: examples/%.c lib/weir.h $(OUT)/.flags
	@mkdir -p $(@D); $(CC) -Ilib $(CFLAGS) -std=c11 -Wpedantic -D_DEFAULT_SOURCE -c $< -o $@
$(OUT)/client/libweir.o: $(CLIENT_OBJ)
	@ld -r --gc-sections --gc-keep-exported $^ -o $@
	@objcopy -w --localize-hidden --strip-unneeded-symbol='!weir_*' --strip-unneeded-symbol='*' $@
$(OUT)/client/libweir.a: $(OUT)/client/libweir.o
	@rm -f $@; ar qcs $@ $<
$(OUT)/client/libweir.so.0: $(OUT)/client/libweir.o lib/libweir.map
	@echo "  ld  $@"; $(CC) -shared $(filter-out -pie,$(LDFLAGS)) -Wl,-z,defs -Wl,-soname,$(@F) \
	        -Wl,--version-script=lib/libweir.map $< $(CLIENT_LIBS) -o $@
LIB_TESTS := $(filter $(OUT)/tests/unit/test_libweir%,$(TESTS))
$(LIB_TESTS:=.o) $(OUT)/tests/integration/client_library.o: CPPFLAGS += -Ilib
$(LIB_TESTS): $(LIB_OBJ)

# shared(folder): the archive of what the programs of a folder share.
shared = $(OUT)/$(1)/shared.a
define shared_rule
$(call shared,$(1)): $(call objects,$(filter $(1)/%,$(SHARED_C)))
	@mkdir -p $$(@D); rm -f $$@; ar qcs $$@ $$^
$(filter $(OUT)/$(1)/%,$(TESTS) $(FUZZ)): $(call shared,$(1))
endef
FOLDERS := $(sort $(patsubst %/,%,$(dir $(TEST_C) $(FUZZ_C) $(SHARED_C))))
$(foreach f,$(FOLDERS),$(eval $(call shared_rule,$(f))))
SUPPORT := $(if $(filter tests/support,$(FOLDERS)),$(call shared,tests/support))

$(TESTS): %: %.o $(SUPPORT) $(OUT)/libweir.a
	$(link) $(LDLIBS) -lcmocka -lm -o $@
$(FUZZ): %: %.o $(SUPPORT) $(OUT)/libweir.a
	$(link) $(if $(filter fuzz,$(VARIANT)),-fsanitize=fuzzer) $(LDLIBS) -o $@

.SECONDARY:
-include $(shell find $(OUT) -name '*.d' 2>/dev/null)

# --- what people use --------------------------------------------------------------------------

.PHONY: help run test test-all lint format bench demo crash fuzz soak cov docs install uninstall checksec clean \
        dist wordpress-zip sbom deb package-test

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## install missing packages, build, and serve from ./data
	@tools/deps run
	@$(MAKE) all
	@exec build/weir serve --data ./data --greet

test: ## run the tests of behaviour: lint, unit tests with sanitizers, real clients, faults
	@tools/deps test
	@tools/test

test-all: ## run the outer ring too, before a release: cluster faults, kills, races, long runs, packages
	@tools/deps test-all
	@tools/test --all

lint: ## check the sources: format, warnings, clang-tidy, cppcheck, layers, shell scripts, docs
	@tools/deps test
	@$(MAKE) --no-print-directory all
	@tools/lint

format: ## rewrite the C sources with clang-format
	@clang-format -i $(FORMATTED)

bench: ## measure weir, Redis, beanstalkd and MariaDB on this machine (BENCH_ARGS)
	@tools/deps bench
	@$(MAKE) all build/release/bench/gate_bench
	@bench/run $(BENCH_ARGS)
	@build/release/bench/gate_bench

# The demo that each SITE plays.
DEMO_shop := storm
DEMO_wordpress := wordpress
DEMO_door := door
SITE ?= shop

demo: ## show a storm in a real MariaDB; four minutes, or DEMO_ARGS=--quick; SITE=wordpress or door
	@$(if $(DEMO_$(SITE)),,$(error unknown SITE '$(SITE)'; it is shop, wordpress or door))
	@tools/deps demo
	@$(MAKE) all
	@demo/$(DEMO_$(SITE)) $(DEMO_ARGS)

CRASH_KILLS = 1000
crash: ## kill weir under load again and again, and look for lost jobs (CRASH_ARGS, CRASH_KILLS, CLUSTER=1)
	@tools/deps test
	@$(MAKE) all
ifdef CLUSTER
	@tests/crash/cluster --faults $(CRASH_KILLS) $(CRASH_ARGS)
else
	@tests/crash/run $(CRASH_ARGS)
	@/usr/bin/python3 tests/integration/mysql_kills.py --kills $(CRASH_KILLS)
endif

fuzz: ## run each fuzz target for FUZZ_SECONDS (60)
	@tools/deps test
	@$(MAKE) VARIANT=fuzz fuzzers
	@tools/fuzz run $(FUZZ_SECONDS)

soak: ## analyze every file, then simulate and crash with new seeds for SOAK_MINUTES (60)
	@tools/deps test
	@tools/soak

cov: ## measure branch coverage of the unit, property and simulation tests, by folder
	@tools/deps test
	@tools/cov

docs: ## rewrite the generated pages: commands, OpenAPI, errors, limits
	@$(MAKE) all
	@tools/docs-update

checksec: build/weir ## check the hardening of build/weir
	@tools/checksec build/weir build/release/libweir.a

MAN := $(patsubst docs/man/%.scd,build/man/%,$(wildcard docs/man/*.scd))
build/man/%: docs/man/%.scd
	@mkdir -p $(@D); scdoc < $< > $@.tmp && mv $@.tmp $@
COMPLETIONS := $(addprefix build/completion/,bash zsh fish)
build/completion/%: build/weir
	@mkdir -p $(@D); build/weir completion $* > $@.tmp && mv $@.tmp $@

# What is installed and never edited: file, mode, and where to.  Units are apart, because they name the
# places of others.
INSTALLED = \
        build/weir:755:$(BINDIR)/weir \
        lib/weir.h:644:$(INCLUDEDIR)/weir.h \
        build/libweir.a:644:$(LIBDIR)/libweir.a \
        build/libweir.so.0:644:$(LIBDIR)/libweir.so.0 \
        integrations/wordpress/weir-runner.php:644:$(PREFIX)/share/weir/weir-runner.php \
        integrations/wordpress/weir.php:644:$(PREFIX)/share/weir/weir.php \
        packaging/prometheus-alerts.yml:644:$(PREFIX)/share/weir/prometheus-alerts.yml \
        packaging/grafana-dashboard.json:644:$(PREFIX)/share/weir/grafana-dashboard.json \
        packaging/weir.sysusers:644:$(PREFIX)/lib/sysusers.d/weir.conf \
        packaging/weir.tmpfiles:644:$(PREFIX)/lib/tmpfiles.d/weir.conf \
        packaging/weir.apparmor:644:$(APPARMORDIR)/weir-server \
        build/completion/bash:644:$(PREFIX)/share/bash-completion/completions/weir \
        build/completion/zsh:644:$(ZSHDIR)/_weir \
        build/completion/fish:644:$(PREFIX)/share/fish/vendor_completions.d/weir.fish \
        $(foreach m,$(MAN),$m:644:$(MANDIR)/man$(lastword $(subst ., ,$m))/$(notdir $m))
UNITS := $(wildcard packaging/*.service packaging/*.socket)

install: all $(MAN) $(COMPLETIONS) ## install programs, library, man pages, units, example settings (PREFIX, DESTDIR)
	@set -e; for row in $(INSTALLED); do to=$${row##*:}; row=$${row%:*}; \
	        echo "  install $$to"; install -D -m $${row##*:} $${row%:*} $(DESTDIR)$$to; done
	@ln -sf libweir.so.0 $(DESTDIR)$(LIBDIR)/libweir.so
	@mkdir -p $(DESTDIR)$(LIBDIR)/pkgconfig
	@sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@INCLUDEDIR@|$(INCLUDEDIR)|; s|@VERSION@|$(VERSION)|' \
	        lib/libweir.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/libweir.pc
	@set -e; for u in $(UNITS); do mkdir -p $(DESTDIR)$(UNITDIR); \
	        sed 's|/usr/bin/weir|$(BINDIR)/weir|g; s|/etc/weir/|$(SYSCONFDIR)/weir/|g' $$u \
	                > $(DESTDIR)$(UNITDIR)/$${u##*/}; done
	@set -e; for c in $(wildcard packaging/*.conf); do to=$(DESTDIR)$(SYSCONFDIR)/weir/$${c##*/}; \
	        install -D -m 644 $$c $$to.example; test -e $$to || install -m 644 $$c $$to; done

uninstall: ## remove what install put there, except the settings
	rm -f $(foreach row,$(INSTALLED),$(DESTDIR)$(lastword $(subst :, ,$(row))))
	rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,libweir.so pkgconfig/libweir.pc) \
	        $(patsubst %,$(DESTDIR)$(UNITDIR)/%,$(notdir $(UNITS)))

dist: ## make the source archive build/weir-VERSION.tar.xz; the same tree gives the same bytes
	@tools/package dist

wordpress-zip: ## make the plugin for WordPress, build/weir-wordpress-VERSION.zip; the same tree gives the same bytes
	@tools/wordpress-zip

sbom: ## write the list of what weir is made of, build/weir-VERSION.spdx.json (SPDX 2.3)
	@tools/deps run
	@$(MAKE) all
	@tools/sbom

deb: ## build the Debian packages into build/deb/
	@tools/deps deb
	@tools/package deb

package-test: ## install, upgrade and purge the packages on a booted Debian; run the Containerfile (root)
	@tools/deps package
	@tests/package/life_cycle
	@tests/package/container

clean: ## remove build/
	rm -rf build
