# One graph that make sees whole: this file builds and installs, tests/tests.mk, which it includes, tests and measures.
#
#   make            build every program into build/release, reachable as bin/
#   make demo       install what is missing, fetch the default model, pass one prompt through three processes
#   make test       all tests; make BUILD=asan test runs them under AddressSanitizer and UBSan, BUILD=tsan under ThreadSanitizer
SHELL := /bin/sh
comma := ,
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

BUILD ?= release
# CROSS=aarch64 (riscv64, ppc64le) builds for another machine, into build/aarch64, with libraries of its own
# (deploy/sysroot.sh, in the cache) and ccache where it is installed; what it makes runs through RUNNER here.
CROSS ?=
SYSROOT = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/baton/sysroot-$(or $(CROSS),aarch64)
B     := build/$(or $(CROSS),$(BUILD))
ifneq ($(CROSS),)
machine.aarch64 := aarch64-linux-gnu aarch64
machine.riscv64 := riscv64-linux-gnu riscv64
machine.ppc64le := powerpc64le-linux-gnu ppc64le
machine.i686    := i686-linux-gnu
ifeq ($(machine.$(CROSS)),)
  $(error CROSS=$(CROSS) is not one of: aarch64 riscv64 ppc64le i686)
endif
CCACHE ?= $(notdir $(shell command -v ccache))
override CC := $(CCACHE) $(word 1,$(machine.$(CROSS)))-gcc --sysroot=$(SYSROOT)
AR      := $(word 1,$(machine.$(CROSS)))-ar
# With all that qemu knows; its other machines run plain C.
QEMU_CPU ?= $(if $(filter aarch64,$(CROSS)),max)
RUNNER  := qemu-$(word 2,$(machine.$(CROSS))) -L $(SYSROOT) $(if $(QEMU_CPU),-cpu $(QEMU_CPU))
ifeq ($(CROSS),i686)
# This machine runs it itself: programs name the loader and the libraries of the sysroot.
RUNNER  := env
endif
export BATON_RUNNER := $(RUNNER)
endif
V     ?= 0
Q     := $(if $(filter 0,$(V)),@,)
say    = $(if $(filter 0,$(V)),@printf '  %-7s %s\n' '$(1)' '$(2)',@:)

# ---- tools and dependencies ------------------------------------------------------------------------
# (make itself gives CC and AR: cc and ar)
PROTOC_C ?= protoc-c
INSTALL  ?= install
GOALS := $(or $(MAKECMDGOALS),all)

# build/deps.mk holds the libraries' flags. Making it checks that they are there; the goals that promise a working
# set-up on a bare machine (deps, demo, test) install what is missing first, the others say what to run.
SETUP_GOALS := deps demo model test
ifneq ($(filter-out help clean uninstall format ci,$(GOALS)),)
  include $(if $(CROSS),$(B),build)/deps.mk
endif
$(if $(CROSS),$(B)/deps.mk): deploy/deps.sh deploy/sysroot.sh
	@mkdir -p $(@D)
	@sh deploy/sysroot.sh $(CROSS) '$(SYSROOT)'
	@sh deploy/deps.sh --sysroot $(SYSROOT) --write $@
build/deps.mk: deploy/deps.sh
	@mkdir -p build
	@sh deploy/deps.sh $(if $(filter $(SETUP_GOALS),$(GOALS)),--install) --write $@

# ---- flags -----------------------------------------------------------------------------------------
# CFLAGS and LDFLAGS belong to the user; what the project needs goes into BT_*.
CFLAGS  ?= -O2$(if $(CROSS),, -g)
VERSION := $(shell cat VERSION)
BT_CFLAGS := -std=c17 -D_GNU_SOURCE -Icommon -I. -I$(B)/gen $(DEP_CFLAGS) -DBT_VERSION='"$(VERSION)"' \
  -ffp-contract=off -fno-common -fstack-protector-strong -pthread \
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
  -Wwrite-strings -Wvla -Wundef -Wformat=2 -Wcast-align -Wswitch-enum
BT_LDFLAGS := -Wl,--as-needed -pthread
san.release :=
san.debug   := -O0
san.asan    := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1
san.fuzz    := -fsanitize=fuzzer-no-link $(san.asan)
san.tsan    := -fsanitize=thread -fno-omit-frame-pointer -O1
ifeq ($(origin san.$(BUILD)),undefined)
  $(error BUILD=$(BUILD) is not one of: release debug asan tsan fuzz)
endif
ifeq ($(WERROR),1)
  BT_CFLAGS += -Werror
endif
ALL_CFLAGS  = $(BT_CFLAGS) $(CFLAGS) $(san.$(BUILD)) $(ISA)
ALL_LDFLAGS = $(BT_LDFLAGS) $(LDFLAGS) $(san.$(BUILD))

ifneq ($(filter i386% i486% i586% i686%,$(shell $(CC) -dumpmachine 2>/dev/null)),)
# The x87's registers round otherwise; gcc speaks of an alignment that it changed long ago.
BT_CFLAGS += -msse2 -mfpmath=sse -D_FILE_OFFSET_BITS=64 -Wno-psabi
BT_LDFLAGS += $(if $(CROSS),-Wl$(comma)--dynamic-linker=$(SYSROOT)/lib/ld-linux.so.2 \
  -Wl$(comma)--disable-new-dtags $(foreach d,lib usr/lib,-Wl$(comma)-rpath=$(SYSROOT)/$d/i386-linux-gnu))
endif

# Instruction sets are chosen by file-name suffix, never globally with -march=native.
ifneq ($(filter x86_64%,$(shell $(CC) -dumpmachine 2>/dev/null)),)
AVX2   := -mavx2 -mfma -mf16c
AVX512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c
endif
ifneq ($(filter aarch64%,$(shell $(CC) -dumpmachine 2>/dev/null)),)
DOTPROD := -march=armv8.2-a+dotprod
I8MM    := -march=armv8.2-a+dotprod+i8mm
# Debian 12's gcc for aarch64 fails at -O2 where it makes vectors of some tests.
$(B)/tests/unit/%.o: ISA := -fno-tree-vectorize
$(B)/tests/unit/npu/run/test_no_float.o: ISA := $(if $(CROSS),-DOBJDUMP='"aarch64-linux-gnu-objdump"')
endif
%_dotprod.o:    ISA := $(DOTPROD)
%_i8mm.o:       ISA := $(I8MM)
%_avx2.o:       ISA := $(AVX2)
%_avxvnni.o:    ISA := $(AVX2) $(if $(AVX2),-mavxvnni)
%_avx512.o:     ISA := $(AVX512)
%_avx512vnni.o: ISA := $(AVX512) $(if $(AVX512),-mavx512vnni)
# A kernel is one function of thousands of accesses. Where each is checked in place, and for undefined behaviour too, clang
# takes 2 GB and minutes a file; BUILD=asan has these checks.
ifeq ($(BUILD),fuzz)
$(B)/common/kernels/%.o: san.fuzz := -fsanitize=fuzzer-no-link,address -fno-omit-frame-pointer -O1 \
  -mllvm -asan-instrumentation-with-call-threshold=0
endif
# The reference engine is plain loops; let the compiler vectorise them with the baseline instruction set.
$(B)/common/ref/%.o: ISA := -O3
# So are the looks at what goes into KV.
$(B)/common/kernels/float/finite.o: ISA := -O3
# So are the loops that choose the NPU's integers.
$(patsubst %,$(B)/common/npu/quant/%.o,awq calib fold gptq_ref grid hadamard sites rounding rounding_ref): ISA := -O3
$(B)/common/npu/quant/%_avx2.o: ISA := $(AVX2) -O3

# ---- build -----------------------------------------------------------------------------------------
# Every source below some folders; their objects.
sources   = $(sort $(shell find $(1) -name '*.c'))
objs      = $(patsubst %.c,$(B)/%.o,$(call sources,$(1)))
# Each room is a library, and so is common/; a program is a thin main in programs/ with the rooms that it stands on.
ROOMS    := tools lab simulate gateway prefill-node decode-node
LIBS     := $(ROOMS:%=$(B)/lib%.a) $(B)/libbaton.a
PROGS    := baton baton-gateway baton-prefill baton-decode
PROTO_O  := $(patsubst proto/%.proto,$(B)/gen/%.pb-c.o,$(sort $(wildcard proto/*.proto)))
# Data that travel inside the programs: pages, the text that the NPU's compiler calibrates on, profiles of devices, known models.
PROFILES := $(sort $(wildcard common/device/profiles/*.json))
TEXTS    := $(PROFILES) common/model/models.json $(sort $(shell find common $(ROOMS) -name '*.html' -o -name '*.txt'))
GEN_H    := $(PROTO_O:.o=.h) $(patsubst %,$(B)/gen/%.h,device/profiles programs/commit $(TEXTS:common/%=%))

include tests/tests.mk

## all: build the libraries and every program
all: $(if $(CROSS),$(PROGS:%=$(B)/bin/%),$(PROGS:%=bin/%))
# bin/ always points at the build made last.
$(PROGS:%=bin/%): bin/%: $(B)/bin/% FORCE
	@mkdir -p bin
	@[ "$$(readlink $@)" = ../$< ] || ln -sfn ../$< $@

$(B)/bin/baton:         $(B)/programs/baton.o $(LIBS)
$(B)/bin/baton-gateway: $(B)/programs/baton_gateway.o $(B)/libgateway.a $(B)/libbaton.a
$(B)/bin/baton-prefill: $(B)/programs/baton_prefill.o
$(B)/bin/baton-decode:  $(B)/programs/baton_decode.o
$(B)/bin/baton-prefill $(B)/bin/baton-decode: $(B)/programs/node.o $(B)/libdecode-node.a $(B)/libprefill-node.a $(B)/libbaton.a
# Editing of lines is for people, so no daemon links it.
$(B)/bin/baton: DEP_LIBS += $(EDIT_LIBS)

# One rule links. Objects come before libraries: what is linked by name is taken in place of what a library has.
$(PROGS:%=$(B)/bin/%) $(TEST_PROGRAMS):
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(ALL_LDFLAGS) $(DEP_LIBS)

$(foreach room,$(ROOMS),$(eval $(B)/lib$(room).a: $(call objs,$(room))))
$(B)/libbaton.a: $(call objs,common) $(PROTO_O)
$(LIBS) $(B)/libfault.a $(B)/libworld.a: $(B)/.flags
	@mkdir -p $(@D)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

# The stamp changes only when the text of the flags does: changing CFLAGS rebuilds, a second `make` does nothing.
export BT_FLAGS_TXT := $(CC) $(BT_CFLAGS) $(CFLAGS) $(san.$(BUILD))$(if $(LDFLAGS), $(LDFLAGS))
$(B)/.flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' "$$BT_FLAGS_TXT" | cmp -s - $@ || printf '%s\n' "$$BT_FLAGS_TXT" > $@

# One recipe compiles: the usual objects, and those of the same sources that tests have with other flags.
define compile
@mkdir -p $(@D)
$(call say,CC,$(@:$(B)/%.o=%.c))
$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<
endef
$(B)/%.o: %.c $(B)/.flags | $(GEN_H)
	$(compile)
$(B)/gen/%.o: $(B)/gen/%.c $(B)/.flags
	$(compile)
$(B)/gen/%.o: BT_CFLAGS += -Wno-switch-enum
$(B)/gen/%.pb-c.c $(B)/gen/%.pb-c.h &: proto/%.proto
	@mkdir -p $(B)/gen
	$(call say,PROTOC,$<)
	$(Q)$(PROTOC_C) --proto_path=proto --c_out=$(B)/gen $<

# One rule embeds a text, as a string of C: page.html is #include "lab/plan/page.html.h".
vpath %.txt common
vpath %.json common
$(B)/gen/%.h: %
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $< > $@
# Each profile's name and text. The folder is named because a profile may go.
$(B)/gen/device/profiles.h: $(PROFILES) common/device/profiles
	@mkdir -p $(@D)
	$(Q)for p in $(notdir $(PROFILES)); do printf '{"%s",\n#include "device/profiles/%s.h"\n},\n' "$${p%.json}" "$$p"; done > $@

# The commit that results name, with "-dirty" where files differ from it; empty outside of a repository of this tree alone.
# One main reads it, so that another commit costs one object and one program.
$(B)/gen/programs/commit.h: FORCE
	@mkdir -p $(@D)
	@export GIT_OPTIONAL_LOCKS=0; c=; [ "$$(git rev-parse --show-cdup 2>&1)" ] || \
	  c=$$(git describe --always --dirty --abbrev=40 --exclude '*' 2> /dev/null); \
	  printf '#define BT_COMMIT "%s"\n' "$$c" > $@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# ---- set-up ----------------------------------------------------------------------------------------
## deps: install the libraries and tools that are missing, those of lint and test-emulated too (Debian; sudo if not root)
deps:
	@sh deploy/deps.sh --install --checks

## model: build, fetch a model by name, check it, print its path: make model (the default one), make model MODEL=qwen2.5-coder-1.5b
model: all
	@sh deploy/model.sh $(MODEL)

## demo: install, build, fetch the default model, and pass one prompt through three processes
demo: all
	@sh deploy/model.sh > /dev/null
	@sh deploy/demo.sh

# ---- documents and install -------------------------------------------------------------------------
# Pages that the programs print of themselves. A cross build installs pages that this machine's programs made.
PAGES := $(if $(CROSS),build/$(BUILD),$(B))/pages
$(if $(CROSS),,$(PAGES)/made): docs/pages.sh docs/programs.sh $(PROGS:%=$(B)/bin/%)
	@BATON_BIN=$(B)/bin sh docs/pages.sh $(@D)
	@touch $@
## docs: manual pages, completion and openapi.json into build/release/pages; the generated sections of documents again
docs: all $(PAGES)/made
	@BATON_BIN=$(B)/bin sh docs/generate.sh

PREFIX  ?= /usr/local
BINDIR  ?= $(PREFIX)/bin
MANDIR  ?= $(PREFIX)/share/man
COMPDIR ?= $(PREFIX)/share/bash-completion/completions
export DESTDIR PREFIX BINDIR MANDIR COMPDIR INSTALL
## install: copy programs, manual pages and completion under $(DESTDIR)$(PREFIX)
install: all $(if $(CROSS),,$(PAGES)/made)
	@sh deploy/install.sh install $(B)/bin $(PAGES) $(PROGS)
## uninstall: remove what install copied
uninstall:
	@sh deploy/install.sh uninstall

## help: this list
help:
	@sed -n 's/^#   make/  make/p' Makefile
	@awk '/^# ---- /{ head = $$0; gsub(/^# -* | -*$$/, "", head) } \
	  /^## /{ if (head) print "\n" head ":"; head = ""; name = $$2; text = substr($$0, length("## " name) + 2); sub(/:$$/, "", name); \
	    n = split(text, word, " "); line = sprintf("  %-16s", name); \
	    for (i = 1; i <= n; i++) { if (length(line) + length(word[i]) > 118) { print line; line = sprintf("%18s", "") } \
	      line = line " " word[i] } print line }' Makefile tests/tests.mk
## clean: remove build/ and bin/
clean:
	rm -rf build bin

# Goals that help shows are no files.
.PHONY: FORCE $(shell sed -n 's/^## \([^: ]*\):.*/\1/p' Makefile tests/tests.mk)
.SECONDARY:
.DEFAULT_GOAL := all
-include $(shell find $(B) -name '*.d' 2>/dev/null)
