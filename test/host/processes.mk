# Builds the tests of the host scope that need several processes. `make -f processes.mk check` runs
# them.
#
#   BUILD     where to build; one folder for each set of flags
#   CC        gcc or clang
#   SANITIZE  for example address,undefined
#   SECONDS   of the torture
#   STRIDE    of the deaths by single steps
#   SMALL     1: as in test/core/Makefile
#   PLAIN     1: the plain variant of the port, as on macOS (src/host/port/posix/parts.h)

comma := ,
BUILD ?= ../../build/host-processes
SANITIZE ?=
PLAIN ?=
SECONDS ?= 10
STRIDE ?= 211

OTHERS = darwin $(if $(PLAIN),linux_calls,plain_calls)
SOURCES = $(wildcard ../../src/host/segment/*.c ../../src/host/member/*.c ../../src/host/port/*.c) \
  $(filter-out $(OTHERS:%=../../src/host/port/posix/%.c), $(wildcard ../../src/host/port/posix/*.c)) \
  ../../src/core/hash.c ../../src/core/port_posix.c
CORE = $(filter-out ../../src/core/port_windows.c ../../src/core/all.c, $(wildcard ../../src/core/*.c))
HEADERS = $(wildcard ../../src/host/*.h ../../src/host/*/*.h ../../src/host/port/*/*.h ../../src/core/*.h) \
  ../core/harness.h cast.h
WARNINGS = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wvla -Werror
CFLAGS = -std=gnu11 -O1 -g -pthread $(WARNINGS) $(if $(PLAIN),-DWLH_PLAIN) $(if $(SMALL),-DWLK_SMALL) \
  $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all)

# The calls that the plain variant makes are others.
FAULTS = $(if $(PLAIN),,$(BUILD)/faults_test)

all: $(BUILD)/actor $(BUILD)/actor-next $(BUILD)/processes_test $(BUILD)/harm_test $(BUILD)/between_test \
  $(BUILD)/threads_test $(BUILD)/turn_test $(FAULTS) \
  $(BUILD)/torture $(BUILD)/steps_test

check: all
	$(BUILD)/processes_test
	$(BUILD)/harm_test
	$(BUILD)/between_test
	$(BUILD)/threads_test
	$(BUILD)/turn_test
	$(FAULTS)
	$(BUILD)/steps_test $(STRIDE)
	$(BUILD)/torture $(SECONDS)

$(BUILD):
	mkdir -p $@

$(BUILD)/libhost.a: $(SOURCES) $(HEADERS) | $(BUILD)
	rm -rf $(BUILD)/objects
	mkdir -p $(BUILD)/objects
	set -e; for source in $(SOURCES); do \
	  $(CC) $(CFLAGS) -Wconversion -c $$source -o $(BUILD)/objects/$$(echo $$source | tr ./ __).o; \
	done
	rm -f $@; ar rcs $@ $(BUILD)/objects/*.o

$(BUILD)/actor $(BUILD)/torture $(BUILD)/steps_test: $(BUILD)/%: %.c $(BUILD)/libhost.a
	$(CC) $(CFLAGS) $< $(BUILD)/libhost.a -o $@ -ldl

# A build of another layout, for those who meet it.
$(BUILD)/actor-next: actor.c $(SOURCES) $(HEADERS) | $(BUILD)
	$(CC) $(CFLAGS) -DWLH_LAYOUT=99 -DVERSION='"99.0.0"' actor.c ../../src/host/all.c \
	  ../../src/core/hash.c ../../src/core/port_posix.c -o $@ -ldl

# The harness stands on the core. Compiled once for all tests.
HARNESS = cast.c ../core/harness.c $(filter-out %/hash.c %/port_posix.c,$(CORE))
$(BUILD)/libharness.a: $(HARNESS) $(HEADERS) | $(BUILD)
	rm -rf $@ $(BUILD)/harness
	mkdir -p $(BUILD)/harness
	set -e; for source in $(HARNESS); do \
	  $(CC) $(CFLAGS) -DWLK_TESTING -c $$source -o $(BUILD)/harness/$$(basename $$source .c).o; \
	done
	ar rcs $@ $(BUILD)/harness/*.o

$(BUILD)/%_test: %_test.c $(BUILD)/libharness.a $(BUILD)/libhost.a
	$(CC) $(CFLAGS) -DWLK_TESTING $< $(BUILD)/libharness.a $(BUILD)/libhost.a -o $@ -ldl

$(BUILD)/torture: private CFLAGS += $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc free)

# The tests stand behind these calls of the library.
WRAPPED = mkdirat openat openat64 fchown fchmod fchownat fchmodat linkat unlinkat renameat bind \
  fcntl fcntl64 sendto socket accept accept4 close wlh_port_lock_member wlh_port_connect wlh_port_rights \
  wlh_port_prevent_forks wlh_port_permit_forks
$(BUILD)/between_test: private CFLAGS += $(WRAPPED:%=-Wl,--wrap=%)
FAILING = socket bind listen connect accept4 sendto recv eventfd inotify_init1 inotify_add_watch \
  fstatfs64 fstat64 lstat64 fstatat64 mkdirat fchmod fchmodat linkat unlinkat renameat flock mmap64 \
  madvise read write ppoll openat64 fcntl64 posix_fallocate64 pthread_create
$(BUILD)/faults_test: private CFLAGS += $(FAILING:%=-Wl,--wrap=%)
$(BUILD)/turn_test: private CFLAGS += -Wl,--wrap=wlh_cells_request_a_lock -Wl,--wrap=wlh_port_extend_map \
  -Wl,--wrap=wlk_port_now -Wl,--wrap=wlh_port_grow -Wl,--wrap=wlh_port_give_back

.PHONY: all check
