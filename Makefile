# weir: one Makefile.  `make help` lists the targets people use.
#
# Variants live apart: build/<variant>/.  The release binary is build/weir.

VARIANT ?= release
OUT     := build/$(VARIANT)
CC      ?= cc
PKGS    := libuv libconfuse openssl sqlite3
LLHTTP  := /usr/share/llhttp
PREFIX  ?= /usr/local

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
        -Wcast-qual -Wwrite-strings -Wformat=2 -Wundef -Wvla -Wimplicit-fallthrough \
        -Wswitch-enum -Werror=implicit-function-declaration
HARDEN := -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection \
          -fcf-protection=full -ftrivial-auto-var-init=zero -fno-delete-null-pointer-checks \
          -fno-strict-overflow
CFLAGS_release := -O2 -g $(HARDEN)
CFLAGS_debug   := -O1 -g3
CFLAGS_asan    := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
CFLAGS_tsan    := -O1 -g -fsanitize=thread
CFLAGS_cov     := -O0 -g --coverage
CFLAGS_clang   := -O1 -g
CFLAGS_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
ifneq ($(filter fuzz clang,$(VARIANT)),)
CC := clang
endif

CPPFLAGS += -Isrc -I/usr/share/include/llhttp -D_GNU_SOURCE -MMD -MP
CFLAGS   += -std=gnu17 -fPIE -pthread $(WARN) $(if $(WERROR),-Werror) $(CFLAGS_$(VARIANT)) \
            $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LDFLAGS  += -pie -pthread $(filter -fsanitize=% --coverage,$(CFLAGS_$(VARIANT))) \
            -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code
LDFLAGS  := $(subst fuzzer-no-link$(,),,$(LDFLAGS))
LDLIBS   += $(shell pkg-config --libs $(PKGS) 2>/dev/null)

SRC    := $(sort $(wildcard src/*/*.c))
OBJ    := $(SRC:%.c=$(OUT)/%.o) $(patsubst %,$(OUT)/llhttp/%.o,llhttp api http)
TEST_C := $(sort $(wildcard tests/unit/test_*.c tests/prop/prop_*.c tests/sim/sim_*.c))
TESTS  := $(TEST_C:%.c=$(OUT)/%)
FUZZ_C := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ   := $(FUZZ_C:%.c=$(OUT)/%)

.PHONY: all
all: build/weir

build/weir: build/release/weir
	@cp -f $< $@.tmp && mv -f $@.tmp $@
build/release/weir: FORCE
	@$(MAKE) --no-print-directory VARIANT=release binary
.PHONY: FORCE binary tests fuzzers
FORCE:
binary: $(OUT)/weir
tests: $(TESTS)
fuzzers: $(FUZZ)

$(OUT)/weir: $(OUT)/src/main.o $(OUT)/libweir.a
	$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@
$(OUT)/libweir.a: $(OBJ)
	@rm -f $@; ar rcs $@ $^
$(OUT)/src/%.o: src/%.c
	@mkdir -p $(@D); $(CC) $(CPPFLAGS) $(CFLAGS) -include src/base/banned.h -c $< -o $@
$(OUT)/tests/%.o: tests/%.c
	@mkdir -p $(@D); $(CC) $(CPPFLAGS) -Itests $(CFLAGS) -c $< -o $@
$(OUT)/llhttp/%.o: $(LLHTTP)/%.c
	@mkdir -p $(@D); $(CC) $(CPPFLAGS) $(filter-out $(WARN) -Werror,$(CFLAGS)) -c $< -o $@
$(OUT)/tests/fuzz/%: $(OUT)/tests/fuzz/%.o $(OUT)/libweir.a
	$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ $(LDLIBS) -o $@
$(OUT)/tests/%: $(OUT)/tests/%.o $(OUT)/libweir.a
	$(CC) $(LDFLAGS) $^ $(LDLIBS) -lcmocka -o $@

.PHONY: clean
clean:
	rm -rf build

.SECONDARY:
-include $(shell find $(OUT) -name '*.d' 2>/dev/null)
