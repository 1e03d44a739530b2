# One non-recursive Makefile: every object is listed once and make sees the whole graph.
#
#   make                  build every program into build/release/, reachable as bin/
#   make BUILD=asan test  the same tree under AddressSanitizer and UBSan, in build/asan/
#   make help             list the targets
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
SETUP_GOALS := deps demo test
ifneq ($(filter-out help clean uninstall model format,$(GOALS)),)
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
# Instruction sets that this machine may lack, by SIMDe; at -O1, because its inline functions take minutes at -O2.
EMULATED := $(AVX2) -include tests/emulated/simd.h -O1 -Wno-psabi
$(B)/emulated/common/kernels/%.o: ISA := $(EMULATED)
$(B)/emulated/common/kernels/kernels.o: ISA := -include tests/emulated/cpu.h
$(B)/tests/emulated/test_simd.o: ISA := $(EMULATED)
# The reference engine is plain loops; let the compiler vectorise them with the baseline instruction set.
$(B)/common/ref/%.o: ISA := -O3
# So are the looks at what goes into KV.
$(B)/common/kernels/float/finite.o: ISA := -O3
# So are the loops of the NPU's compiler.
$(patsubst %,$(B)/common/npu/quant/%.o,awq calib fold gptq_ref grid hadamard sites rounding rounding_ref): ISA := -O3
$(B)/common/npu/quant/gptq_avx2.o $(B)/common/npu/quant/rounding_avx2.o: ISA := $(AVX2) -O3

# ---- sources ---------------------------------------------------------------------------------------
# Every source below some folders; their objects.
sources   = $(sort $(shell find $(1) -name '*.c'))
objs      = $(patsubst %.c,$(B)/%.o,$(call sources,$(1)))
GEN_O    := $(patsubst proto/%.proto,$(B)/gen/%.pb-c.o,$(sort $(wildcard proto/*.proto)))
GEN_H    := $(GEN_O:.o=.h)
LIB_O    := $(call objs,common) $(GEN_O)
# Each program: libraries, and a thin main in programs/.
ROOMS    := tools lab simulate gateway prefill-node decode-node
SIM_O    := $(call objs,sim)
FAULT_O  := $(filter-out $(B)/tests/fault/proxy.o,$(call objs,tests/fault))
UNITS    := $(patsubst %.c,$(B)/%,$(call sources,tests/unit))
# Those that walk the kernels' dispatch table with kernels alone, and tests/emulated: every engine on every row in short,
# and what emulates x86. The other tests of engines take a quarter of an hour there.
WALKERS  := tests/emulated/test_engines.c $(if $(CROSS),,tests/emulated/test_simd.c) $(shell grep -lE '"([a-z/]*/)?(variants|int_ops_kit|rows)\.h"' \
            $(call sources,tests/unit/kernels tests/unit/tools/bench))
EMULATED_O := $(patsubst %.c,$(B)/emulated/%.o,common/kernels/kernels.c \
              $(filter %_avxvnni.c %_avx512.c %_avx512vnni.c,$(call sources,common/kernels)))
INTEGRATION := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/integration/test_*.c)))
FUZZERS  := $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
BENCHES  := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/bench/bench_*.c)))
HELPER_O := $(call objs,tests/helpers)
BENCH_O  := $(B)/tests/bench/kit.o
PROGS    := baton baton-gateway baton-prefill baton-decode
LIBS     := $(B)/libsim.a $(ROOMS:%=$(B)/lib%.a) $(B)/libbaton.a

## all: build the libraries and every program
all: $(if $(CROSS),$(PROGS:%=$(B)/bin/%),$(PROGS:%=bin/%))

$(B)/bin/baton:         $(B)/programs/baton.o $(B)/libtools.a $(B)/liblab.a $(B)/libsimulate.a $(B)/libgateway.a $(B)/libprefill-node.a $(B)/libdecode-node.a $(B)/libbaton.a
$(B)/bin/baton-gateway: $(B)/programs/baton_gateway.o $(B)/libgateway.a $(B)/libbaton.a
$(B)/bin/baton-prefill: $(B)/programs/baton_prefill.o
$(B)/bin/baton-decode:  $(B)/programs/baton_decode.o
$(B)/bin/baton-prefill $(B)/bin/baton-decode: $(B)/programs/node.o $(B)/libdecode-node.a $(B)/libprefill-node.a $(B)/libbaton.a
# Editing of lines is for people, so no daemon links it. Tests link everything; what they do not call is dropped.
$(B)/bin/baton $(UNITS) $(INTEGRATION) $(FUZZERS:%=$(B)/tests/fuzz/%) $(FUZZERS:%=$(B)/explore_%): DEP_LIBS += $(EDIT_LIBS)
$(PROGS:%=$(B)/bin/%):
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(ALL_LDFLAGS) $(DEP_LIBS)
# bin/ always points at the build made last.
$(PROGS:%=bin/%): bin/%: $(B)/bin/% FORCE
	@mkdir -p bin
	@[ "$$(readlink $@)" = ../$< ] || ln -sfn ../$< $@

$(B)/libbaton.a: $(LIB_O)
$(B)/libsim.a: $(SIM_O)
$(B)/libtools.a: $(call objs,tools)
$(B)/liblab.a: $(call objs,lab)
$(B)/libsimulate.a: $(call objs,simulate)
$(B)/libgateway.a: $(call objs,gateway)
$(B)/libprefill-node.a: $(call objs,prefill-node)
$(B)/libdecode-node.a: $(call objs,decode-node)
$(LIBS) $(B)/libfault.a: $(B)/.flags
	@mkdir -p $(@D)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

# The stamp changes only when the text of the flags does: changing CFLAGS rebuilds, a second `make` does nothing.
export BT_FLAGS_TXT := $(CC) $(BT_CFLAGS) $(CFLAGS) $(san.$(BUILD))$(if $(LDFLAGS), $(LDFLAGS))
$(B)/.flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' "$$BT_FLAGS_TXT" | cmp -s - $@ || printf '%s\n' "$$BT_FLAGS_TXT" > $@

$(B)/%.o: %.c $(B)/.flags | $(GEN_H)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/gen/%.pb-c.c $(B)/gen/%.pb-c.h &: proto/%.proto
	@mkdir -p $(B)/gen
	$(call say,PROTOC,$<)
	$(Q)$(PROTOC_C) --proto_path=proto --c_out=$(B)/gen $<
$(B)/gen/%.o: $(B)/gen/%.c $(B)/.flags
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -Wno-switch-enum -MMD -MP -c -o $@ $<

# Device profiles are data; they travel inside the programs as text.
PROFILES  := $(sort $(wildcard common/device/profiles/*.json))
PROFILE_H := $(B)/gen/device/profile_table.h
$(PROFILE_H): $(PROFILES) common/device/profiles
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)for f in $(PROFILES); do \
	  printf '{ "%s",\n' "$$(basename $$f .json)"; sed 's/[\\"]/\\&/g; s/.*/    "&\\n"/' $$f; echo '},'; done > $@
$(B)/common/device/profile.o: $(PROFILE_H)
# So does the text that the NPU's compiler calibrates on.
CALIB_H := $(B)/gen/npu/quant/calib_text.h
$(CALIB_H): common/npu/quant/calib.txt
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $< > $@
$(B)/common/npu/quant/calib_text.o: $(CALIB_H)
# And the page of a replay.
REPLAY_H := $(B)/gen/lab/replay/page_text.h
$(REPLAY_H): lab/replay/page.html
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $< > $@
$(B)/lab/replay/report.o: $(REPLAY_H)
# And the page of a timeline.
PAGE_H := $(B)/gen/lab/timeline/page_text.h
$(PAGE_H): lab/timeline/page.html
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $< > $@
$(B)/lab/timeline/timeline.o: $(PAGE_H)
# And the page of a plan.
PLAN_H := $(B)/gen/lab/plan/page_text.h
$(PLAN_H): lab/plan/page.html
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $< > $@
$(B)/lab/plan/page.o: $(PLAN_H)

# ---- set-up ----------------------------------------------------------------------------------------
## deps: install the libraries and tools that are missing, those of lint and test-emulated too (Debian; sudo if not root)
deps:
	@sh deploy/deps.sh --install --checks

## model: fetch the default model into the cache, check it, print its path
model:
	@sh deploy/model.sh

## demo: install, build, fetch the default model, and pass one prompt through three processes
demo: all
	@sh deploy/model.sh > /dev/null
	@sh deploy/demo.sh

# ---- tests -----------------------------------------------------------------------------------------
# The fault proxy, between real processes; its parts are tested as others are.
$(B)/libfault.a: $(FAULT_O)
$(B)/tests/fault/proxy: $(B)/tests/fault/proxy.o $(B)/libfault.a $(B)/libbaton.a
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(ALL_LDFLAGS) $(DEP_LIBS)
$(INTEGRATION): | $(B)/tests/fault/proxy
$(UNITS) $(INTEGRATION) $(if $(CROSS),$(B)/tests/emulated/test_engines): $(B)/tests/%: $(B)/tests/%.o $(HELPER_O) $(LIBS) $(B)/libfault.a
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) $(B)/libfault.a -Wl,--start-group $(LIBS) -Wl,--end-group $(ALL_LDFLAGS) $(DEP_LIBS) -lcmocka

## test: set up, then run unit, simulated, fuzz-corpus, command-line and integration tests (T=name runs the unit tests so named)
test: $(UNITS) $(INTEGRATION) $(FUZZERS:%=$(B)/tests/fuzz/%) $(B)/tests/sim/simtest $(B)/break/simtest all
	@sh deploy/model.sh > /dev/null
	@sh tests/run.sh $(B) '$(T)'

## test-emulated: the tests that walk the kernels' table, with every x86 instruction set, those that this machine lacks by SIMDe
test-emulated: $(WALKERS:%.c=$(B)/emulated/%)
	@rm -f build/rows/$(BUILD).emulated
	@sh tests/run.sh $(B)/emulated rows $(WALKERS)
## check-rows: fails where a row of the kernels' dispatch table ran nowhere, after test-emulated and test-aarch64 SHORT=1
check-rows:
	@sh tests/rows.sh
# The objects of the usual build, but for the kernels: what is linked by name comes before what a library has.
$(WALKERS:%.c=$(B)/emulated/%): $(B)/emulated/%: $(B)/%.o $(EMULATED_O) $(HELPER_O) $(LIBS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) -Wl,--start-group $(LIBS) -Wl,--end-group $(ALL_LDFLAGS) $(DEP_LIBS) -lcmocka
$(B)/emulated/%.o: %.c $(B)/.flags | $(GEN_H)
	@mkdir -p $(@D)
	$(call say,CC,$< (emulated))
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# Kernels need nothing else, so that another compiler has little to build; KERNELS=name: test_name* alone.
KERNEL_TESTS := $(patsubst tests/unit/%.c,$(B)/%,$(sort $(shell find tests/unit/kernels -name 'test_$(KERNELS)*.c')))
kernel-tests: $(KERNEL_TESTS)
$(KERNEL_TESTS): $(B)/kernels/%: $(B)/tests/unit/kernels/%.o $(B)/tests/helpers/rows.o $(call objs,common/kernels)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(CFLAGS) $(ALL_LDFLAGS) -lcmocka -lm

FOREIGN ?= aarch64
## test-foreign: builds for other machines, run by qemu: kernels' tests, a golden, answers, KV and packages as this one's: make test-foreign FOREIGN='riscv64 ppc64le' (MODEL=file GOLDEN=ids)
test-foreign: all build/release/tests/golden/write_tiny_gguf
	@build/release/tests/golden/write_tiny_gguf build/tiny.gguf
	@mkdir -p build/rows
	@failed=0; for m in $(FOREIGN); do \
	  rm -f build/rows/$$m build/rows/$$m.excused; \
	  sh deploy/sysroot.sh $$m "$(dir $(SYSROOT))sysroot-$$m" || \
	    { [ $$? = 3 ] && [ '$(SHORT)' ] && echo "skipped: $$m: nothing of it was built or run" && \
	      echo 'its cross compiler, emulator or libraries could not be had' > build/rows/$$m.excused && continue; exit 1; }; \
	  $(MAKE) -k CROSS=$$m foreign || failed=1; \
	done; exit $$failed
## test-aarch64: the same for AArch64 (NEON, dotprod, i8mm), with all unit tests and the default model (RECIPES=w8a8: its package too, over an hour); SHORT=1: what CI runs of it
test-aarch64:
	@$(MAKE) test-foreign FOREIGN=aarch64 $(if $(SHORT),,WHOLE=1)
# Kernels first, alone, so that they run while the rest is built. What fails keeps nothing else from its run. WHOLE:
# all unit tests, and the default model; plain loops take minutes for that, so on AArch64 alone. SHORT: without
# infinities and NaN, for which qemu takes two minutes.
FOREIGN_KERNELS := $(filter-out $(if $(SHORT),%/test_nonfinite),$(KERNEL_TESTS))
FOREIGN_TESTS := tests/emulated/test_engines.c $(if $(WHOLE),$(filter-out tests/unit/kernels/%,$(UNITS:$(B)/%=%.c)))
foreign: foreign-kernels foreign-programs
foreign-kernels: $(FOREIGN_KERNELS)
	@sh tests/run.sh $(B) rows $(FOREIGN_KERNELS:$(B)/%=%.c)
foreign-programs: all $(FOREIGN_TESTS:%.c=$(B)/%)
	@failed=0; \
	sh tests/run.sh $(B) rows $(FOREIGN_TESTS) || failed=1; \
	sh tests/foreign.sh $(CROSS) $(B) build/release $(or $(MODEL),build/tiny.gguf) $(if $(SHORT),'' 1 npu,'w8a8 w8a16 w4a16:gptq' 5 npu host reference) || failed=1; \
	$(if $(WHOLE),GOLDEN= sh tests/foreign.sh $(CROSS) $(B) build/release "$$(sh deploy/model.sh)" '$(RECIPES)' 1 npu host || failed=1;) \
	exit $$failed
$(B)/tests/golden/write_tiny_gguf: $(B)/tests/golden/write_tiny_gguf.o $(HELPER_O) $(LIBS)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) -Wl,--start-group $(LIBS) -Wl,--end-group $(ALL_LDFLAGS) $(DEP_LIBS) -lcmocka

## test-compilers: the kernels and their tests by other compilers, which must give the same bits: make test-compilers COMPILERS="'gcc-11 -O3' clang-14"
test-compilers:
	@sh tests/compilers.sh $(COMPILERS)

## test-cli: the command-line tests alone; UPDATE=1 rewrites the expected files after you have read the difference
test-cli: all
	@sh tests/cli/run.sh $(B) $(UPDATE)

## test-clients: clients of OpenAI's API from PyPI (openai, LangChain, LiteLLM, llm) and curl against `baton up`: a table of what worked
test-clients: all
	@sh deploy/model.sh > /dev/null
	@sh tests/clients/run.sh $(B)
## check-timeline: traces of `baton timeline` read with Perfetto's protobuf bindings, from PyPI
check-timeline: all
	@sh deploy/model.sh > /dev/null
	@sh tests/clients/timeline.sh $(B)
## test-openapi: schemathesis from PyPI asks a gateway by its own description: make test-openapi CASES=50 (a path, at most)
test-openapi: all
	@sh deploy/model.sh > /dev/null
	@CASES='$(CASES)' sh tests/clients/run.sh $(B) openapi

# The simulated world over seeds. Brains that are broken on purpose have objects of their own, made from the files that can be.
SIMTEST_O := $(call objs,tests/sim)
BREAK_O   := $(patsubst %.c,$(B)/break/%.o,$(sort $(shell grep -lr --include='*.c' base/breakage.h common $(ROOMS)) tests/sim/simtest.c))
$(B)/tests/sim/simtest: $(SIMTEST_O) $(LIBS)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) -Wl,--start-group $(LIBS) -Wl,--end-group $(ALL_LDFLAGS) $(DEP_LIBS)
$(B)/break/simtest: $(BREAK_O) $(filter-out %/simtest.o,$(SIMTEST_O)) $(LIBS)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) -Wl,--start-group $(LIBS) -Wl,--end-group $(ALL_LDFLAGS) $(DEP_LIBS)
$(B)/break/%.o: %.c $(B)/.flags | $(GEN_H)
	@mkdir -p $(@D)
	$(call say,CC,$< (breakable))
	$(Q)$(CC) $(ALL_CFLAGS) -DBT_BREAKABLE -MMD -MP -c -o $@ $<

## test-wide: one layer with an 8B model's widths through conversion, compiler and engines: 4 GB of memory, 5 GB of disk
WIDE := $(B)/tests/wide/test_wide
$(WIDE): $(B)/tests/%: $(B)/tests/%.o $(HELPER_O) $(LIBS)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) -Wl,--start-group $(LIBS) -Wl,--end-group $(ALL_LDFLAGS) $(DEP_LIBS) -lcmocka
test-wide: $(WIDE)
	@$(WIDE)

## test-kills: kill -9 while compiling and while converting weights, N=50 times each: nothing is left, the next start works
test-kills: all
	@sh deploy/model.sh > /dev/null
	@sh tests/fault/kills.sh $(B) $(or $(N),50) $(MODEL)

## test-flat: instructions of the simulator an event at 10 to 1,000 nodes and 100 to 10,000 requests (Valgrind, 3 minutes)
test-flat: all
	@sh tests/sim/flat.sh

## simtest: the brains in the simulated world: make simtest SEEDS=1000 START=1, TRACE=seed (SHRINK=1), BREAK=name, all or list
simtest: $(B)/$(if $(BREAK),break,tests/sim)/simtest
	@$< seeds=$(or $(SEEDS),1000) start=$(or $(START),1) $(if $(BREAK),break=$(BREAK)) $(if $(TRACE),trace=$(TRACE)) $(if $(SHRINK),shrink)

## validate: the time of devices against what others measured: predicted, published, error; then the calibration
validate: $(B)/tests/validate/validate
	@$< tests/validate/measured.json
	@$< tests/validate/measured.json --fit
$(B)/tests/validate/validate: $(B)/tests/validate/validate.o $(LIBS)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) -Wl,--start-group $(LIBS) -Wl,--end-group $(ALL_LDFLAGS) $(DEP_LIBS) -lm

$(FUZZERS:%=$(B)/tests/fuzz/%): $(B)/tests/fuzz/%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/fuzz/regress_main.o $(HELPER_O) $(LIBS)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) -Wl,--start-group $(LIBS) -Wl,--end-group $(ALL_LDFLAGS) $(DEP_LIBS)

## fuzz: explore one target with libFuzzer (needs clang); what it finds belongs into the corpus: make fuzz F=gguf SECS=60
fuzz:
	@[ '$(F)' ] || { echo 'say which: make fuzz F=name, where name is one of: $(FUZZERS)' >&2; exit 2; }
	$(Q)$(MAKE) CC=clang BUILD=fuzz build/fuzz/explore_$(F)
	@mkdir -p build/fuzz/new/$(F)
	build/fuzz/explore_$(F) -max_total_time=$(or $(SECS),10) -artifact_prefix=build/fuzz/new/ \
	  build/fuzz/new/$(F) tests/fuzz/corpus/$(F)
$(FUZZERS:%=$(B)/explore_%): $(B)/explore_%: $(B)/tests/fuzz/fuzz_%.o $(HELPER_O) $(LIBS)
	$(call say,LINK,$@)
	$(Q)$(CC) -fsanitize=fuzzer -o $@ $(filter %.o,$^) -Wl,--start-group $(LIBS) -Wl,--end-group $(ALL_LDFLAGS) $(DEP_LIBS)

## lint: check layers, circles, sizes, and that documents match the tables they describe
lint: all $(LIBS)
	@BATON_BIN=$(B)/bin sh tests/lint/run.sh

## format: give all sources the one form that lint asks for (clang-format 14, .clang-format)
format:
	@sh tests/lint/format.sh . --write

# Every file at the widest instruction set, so that the kernels' code is seen too.
SOURCES := $(call sources,$(filter-out tests build bin,$(patsubst %/,%,$(wildcard */))))
## analyze: cppcheck and clang-tidy over the programs' sources; any finding fails (.clang-tidy says which checks, and why)
analyze: $(GEN_H) $(PROFILE_H) $(CALIB_H) $(PAGE_H) $(REPLAY_H)
	@command -v cppcheck clang-tidy > /dev/null || { echo 'analyze needs: apt-get install cppcheck clang-tidy' >&2; exit 1; }
	cppcheck -q --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	  -D_GNU_SOURCE -DBT_VERSION='""' -Icommon -I. $(SOURCES)
	@printf '%s\n' $(SOURCES) | xargs -P "$$(nproc)" -I{} clang-tidy --quiet {} -- $(BT_CFLAGS) $(AVX512) -mavx512vnni -mavxvnni 2> build/analyze.log

## bench: check the kernels against their reference and time them against the machine's own limits; then decoding and the hand-off
bench: $(BENCHES) all
	@sh deploy/model.sh > /dev/null
	@$(B)/bin/baton bench --kernels -t 1,0
	@for b in $(BENCHES); do BATON_BIN=$(abspath $(B)/bin) $$b || exit 1; done
$(BENCHES): $(B)/tests/%: $(B)/tests/%.o $(BENCH_O) $(HELPER_O) $(LIBS)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) -Wl,--start-group $(LIBS) -Wl,--end-group $(ALL_LDFLAGS) $(DEP_LIBS)

## bench-peers: Baton beside llama.cpp on one GGUF file, in turn: make bench-peers MODEL=file.gguf (ARGS='--json -r 3'; BENCH_PEER names another llama-bench)
bench-peers: all
	@[ '$(MODEL)' ] || { echo "say which: make bench-peers MODEL=file.gguf ('make model' prints the path of the default model)" >&2; exit 2; }
	@BATON_BIN=$(B)/bin python3 tests/bench/peers.py -m '$(MODEL)' $(ARGS)

## recipes: a table of recipes, perplexity beside bytes and speed: make recipes TEXT=file (MODEL=file.gguf CHUNKS=8 RECIPES='w8a8 w4a16' ARGS='--outliers --json')
recipes: all
	@[ '$(TEXT)' ] || { echo "say what is to be predicted: make recipes TEXT=file" >&2; exit 2; }
	@model='$(MODEL)'; BATON_BIN=$(B)/bin python3 tests/bench/recipes.py -m "$${model:-$$(sh deploy/model.sh)}" -f '$(TEXT)' \
	  $(if $(CHUNKS),--chunks '$(CHUNKS)') $(if $(RECIPES),--recipes '$(RECIPES)') $(ARGS)
## facts: facts hidden in ten long prompts, dense and sparse: make facts TEXT=file (MODEL=file.gguf ATTENTION='dense sparse:0.1' ARGS='--tokens 8000 --json')
facts: all
	@[ '$(TEXT)' ] || { echo "say what facts are hidden in: make facts TEXT=file" >&2; exit 2; }
	@model='$(MODEL)'; BATON_BIN=$(B)/bin python3 tests/bench/facts.py -m "$${model:-$$(sh deploy/model.sh)}" -f '$(TEXT)' \
	  $(if $(ATTENTION),--attention '$(ATTENTION)') $(ARGS)

## mca: what llvm-mca (Debian: llvm-19) says of the inner loops of AArch64's kernels, on four cores of Arm
mca:
	@$(MAKE) CROSS=aarch64 mca-objects
	@python3 tests/bench/mca.py build/aarch64
mca-objects: $(call objs,common/kernels)

# ---- documents and install -------------------------------------------------------------------------
# Pages that the programs print of themselves. What a cross build installs was made by this machine's programs.
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
## install: copy programs, manual pages and completion under $(DESTDIR)$(PREFIX)
install: all $(if $(CROSS),,$(PAGES)/made)
	$(INSTALL) -d $(DESTDIR)$(BINDIR)
	$(INSTALL) -m 0755 $(PROGS:%=$(B)/bin/%) $(DESTDIR)$(BINDIR)/
	@if [ ! -f $(PAGES)/made ]; then \
	  echo "no manual pages and no completion: this machine's programs make them; run 'make docs' without CROSS first" >&2; \
	else set -ex; \
	  $(INSTALL) -d $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(COMPDIR); \
	  $(INSTALL) -m 0644 $(PAGES)/man/*.1 $(DESTDIR)$(MANDIR)/man1/; \
	  for p in $(PROGS); do $(INSTALL) -m 0644 $(PAGES)/baton.bash $(DESTDIR)$(COMPDIR)/$$p; done; \
	fi
# Pages of other packages may be called baton-something too.
## uninstall: remove what install copied
uninstall:
	rm -f $(PROGS:%=$(DESTDIR)$(BINDIR)/%) $(PROGS:%=$(DESTDIR)$(COMPDIR)/%)
	@for f in $(DESTDIR)$(MANDIR)/man1/baton.1 $(DESTDIR)$(MANDIR)/man1/baton-*.1; do \
	  ! grep -qs '^\.TH BATON.* "Baton"$$' "$$f" || rm -f "$$f"; done

## help: this list
help:
	@sed -n 's/^## \([a-z-]*\): \(.*\)/  \1\t\2/p' Makefile | expand -t 13
## clean: remove build/ and bin/
clean:
	rm -rf build bin

.PHONY: all deps model demo test test-wide test-kills test-flat test-cli test-clients check-timeline test-openapi test-emulated check-rows test-aarch64 test-foreign foreign foreign-kernels foreign-programs kernel-tests test-compilers simtest fuzz lint format analyze bench bench-peers recipes facts mca mca-objects docs install uninstall help clean FORCE
.SECONDARY:
.DEFAULT_GOAL := all
-include $(shell find $(B) -name '*.d' 2>/dev/null)
