# Runs steps of .ci/run beside one another: make -j3 -k -f .ci/steps.mk STEP…

package := $(filter package all-targets,$(MAKECMDGOALS))

.PHONY: $(MAKECMDGOALS)
$(MAKECMDGOALS):
	@log=build/ci/$@.log; code=0; start=$$(date +%s); \
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL timeout --kill-after=10 2700 bash .ci/step $@ >$$log 2>&1 </dev/null || code=$$?; \
	printf '\n== %s: ended with %d after %d s\n' $@ $$code $$(($$(date +%s) - start)); \
	cat $$log; \
	[ $$code = 0 ] || { echo $@ >>build/ci/failed; exit $$code; }

# These use the binaries that the package step builds.
$(filter node-% runtimes% bundlers windows,$(MAKECMDGOALS)): $(package)
